"""Behavioural metrics in deep agents."""
