"""`python -m noiseplan` is the command line."""

from noiseplan.cli import main

if __name__ == "__main__":
    main(prog_name="noiseplan")
