"""What we know of Slurm: its queue, and one launcher process on every node of a job."""
