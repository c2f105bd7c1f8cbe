"""Metrics from samples: logs of transitions, a simulator, online estimators."""
