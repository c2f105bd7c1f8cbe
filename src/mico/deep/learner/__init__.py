"""One run, one step: its state, acting, the update, and diagnostics for the log."""
