"""What runs on users' devices: integers, exact draws, files, reports as bytes. NumPy only."""
