"""What training runs leave on disk: atomic files, locks, logs, archives. No JAX."""
