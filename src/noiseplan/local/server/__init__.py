"""What collects: reports counted and kept, answers with their errors, simulation."""
