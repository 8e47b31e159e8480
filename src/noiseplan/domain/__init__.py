"""Which cells a workload tells apart, its Gram matrix, and queries and counts over fewer cells."""
