"""Shapes and types are checked while the tests run: jaxtyping annotations become beartype checks."""

import warnings

from hypothesis import HealthCheck, settings
from jaxtyping import install_import_hook

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    install_import_hook("mico", "beartype.beartype")

settings.register_profile("mico", deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("mico")
