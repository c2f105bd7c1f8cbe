"""One file a figure: a Config, `run(config)` gives a DataFrame, `plot(frame)` the Figure."""
