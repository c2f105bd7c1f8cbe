"""Many runs as compiled programs: the engines inside and outside JAX, and shards of a fleet."""
