"""The script `noiseplan`: quiet where it is interrupted while the package is still being loaded.

It stands beside the package, whose own first lines load NumPy before its code could see that.
"""


def main() -> None:
    """The command line."""
    try:
        from noiseplan.cli import main
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    main()
