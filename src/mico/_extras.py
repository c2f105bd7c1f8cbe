"""Optional dependencies: which extra of the package brings a module, and what to type to install it."""

import importlib.util

from mico._checks import install_hint

EXTRAS: dict[str, str] = {
    "absl": "control",
    "ale_py": "atari",
    "dm_control": "control",
    "equinox": "deep",
    "gymnax": "deep",
    "imageio_ffmpeg": "video",
    "jax": "deep",
    "jaxlib": "deep",
    "mujoco": "control",
    "optax": "deep",
    "pygame": "video",
    "ray": "cluster",
    "sb3_contrib": "torch",
    "stable_baselines3": "torch",
    "tensorboardX": "tensorboard",
    "torch": "torch",
    "umap": "features",
    "zstandard": "deep",
}


def require(module: str, what: str) -> None:
    """Refuse to continue without an optional dependency.

    Args:
        module: The top-level module that must be importable, such as "jax".
        what: What needs it, as the error says: "training needs …".

    Raises:
        ModuleNotFoundError: If the module is not installed, with the extra that brings it.
    """
    if importlib.util.find_spec(module) is None:
        extra = EXTRAS[module]
        raise ModuleNotFoundError(f"{what} needs the extra {extra!r}: {install_hint(extra)}", name=module)


def explain_missing(error: ModuleNotFoundError) -> str:
    """Turn an import error into a sentence that names the extra to install, where one brings the module."""
    module = (error.name or "").partition(".")[0]
    if module not in EXTRAS or "in a clone of mico-rl" in str(error):
        return str(error)
    extra = EXTRAS[module]
    return f"this needs the package {module}, of the extra {extra!r}: {install_hint(extra)}"
