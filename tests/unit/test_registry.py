"""Registries are mappings that other packages add to: by a call, or by entry points that are imported when used."""

import subprocess
import sys

import pytest

from mico._registry import Registry

GROUP = "mico.test_shapes"


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Makes a package `name` with entry points {name: target} importable, as an installer would."""

    def make(name, points, module="", group=GROUP):
        site = tmp_path / name
        info = site / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        lines = [f"{point} = {target}" for point, target in points.items()]
        (info / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines]) + "\n")
        (site / f"{name}.py").write_text(module)
        monkeypatch.syspath_prepend(str(site))
        monkeypatch.delitem(sys.modules, name, raising=False)

    return make


def shapes(**options):
    return Registry("shape", GROUP, {"circle": 1, "square": 2}, **options)


def test_is_a_mapping_of_its_entries():
    assert dict(shapes()) == {"circle": 1, "square": 2}
    assert "circle" in shapes()
    assert "star" not in shapes()
    assert shapes().get("star") is None
    with pytest.raises(KeyError):
        shapes()["star"]


def test_registers_a_name_once():
    registry = shapes()
    assert registry.register("star/five-points", 5) == 5
    assert list(registry) == ["circle", "square", "star/five-points"]
    with pytest.raises(ValueError, match=r"'star/five-points', which was registered by a call; replace=True"):
        registry.register("star/five-points", 6)
    assert registry["star/five-points"] == 5
    registry.register("star/five-points", 6, replace=True)
    assert registry["star/five-points"] == 6


@pytest.mark.parametrize("replace", [False, True])
def test_does_not_replace_what_is_built_in(replace):
    with pytest.raises(ValueError, match=r"^name must be one that no other shape has, got 'circle', .*mico itself$"):
        shapes().register("circle", 3, replace=replace)


@pytest.mark.parametrize("name", ["", "Star", "a b", "-a", "a-", "a//b", "../a", "a/", "ä", 3, None, ("a",)])
def test_refuses_what_is_no_name(name):
    with pytest.raises(ValueError, match=r"^name must be lower case"):
        shapes().register(name, 3)


def test_checks_what_is_registered():
    def positive(name, value):
        if value < 0:
            raise ValueError(f"shape {name} must have a size of at least 0, got {value}")
        return value + 0.5

    registry = shapes(check=positive)
    assert registry.register("star", 5) == registry["star"] == 5.5
    assert registry["circle"] == 1  # what is built in needs no check
    with pytest.raises(ValueError, match="shape dot must"):
        registry.register("dot", -1)
    assert "dot" not in registry


def test_a_wrong_name_suggests_others():
    with pytest.raises(ValueError, match=r"^shape must be one of circle, square, got 'sqare': did you mean square\?$"):
        shapes().look_up("sqare")
    with pytest.raises(ValueError, match=r"^--shape must be one of circle, square, got 7$"):
        shapes().look_up(7, "--shape")
    assert shapes().look_up("square") == 2


def test_entry_points_are_entries_that_are_imported_when_used(install):
    install("stars", {"star": "stars:STAR"}, "STAR = object()")
    registry = shapes()
    assert list(registry) == ["circle", "square", "star"]
    assert registry.origin("star") == "stars 1.0"
    assert "stars" not in sys.modules
    star = registry["star"]
    assert star is sys.modules["stars"].STAR
    assert registry.look_up("star") is star
    with pytest.raises(ValueError, match=r"registered by stars 1\.0$"):
        registry.register("star", 3, replace=True)


def test_a_package_may_declare_and_register_one_object(install):
    """An object, unlike a class, does not know by which name its module has it."""
    install("comets", {"comet": "comets:COMET"}, "COMET = object()\nOTHER = object()")
    registry = shapes()
    import comets

    assert registry.register("comet", comets.COMET, replace=True) is comets.COMET
    assert registry["comet"] is comets.COMET
    again = shapes()
    with pytest.raises(ValueError, match=r"registered by comets 1\.0$"):
        again.register("comet", comets.OTHER)


def test_a_built_in_name_needs_no_look_at_entry_points(monkeypatch):
    def fail(**_):
        raise AssertionError("entry points were listed")

    monkeypatch.setattr("importlib.metadata.entry_points", fail)
    assert shapes()["circle"] == shapes().look_up("circle") == 1


@pytest.mark.parametrize("target", ["broken", "broken:MISSING", "nowhere:STAR"])
def test_a_broken_entry_point_fails_alone_and_names_its_package(install, target):
    install("broken", {"star": target}, "raise RuntimeError('out of order')" if target == "broken" else "")
    registry = shapes()
    assert "star" in list(registry)
    assert registry["circle"] == 1
    with pytest.raises(ValueError, match=rf"shape 'star' of broken 1\.0 cannot be imported from '{target}'"):
        registry["star"]


def test_an_entry_point_is_checked_when_it_is_used(install):
    install("texts", {"star": "texts:STAR"}, "STAR = 'a text'")

    def number(name, value):
        if not isinstance(value, int):
            raise ValueError(f"{name} must be a number, got {value!r}")
        return value

    registry = shapes(check=number)
    with pytest.raises(ValueError, match=r"shape 'star' of texts 1\.0 cannot be used: star must be a number"):
        registry.look_up("star")


def test_of_two_entries_of_one_name_the_first_holds_with_a_warning(install):
    install("circles", {"circle": "circles:CIRCLE", "Bad Name": "circles:CIRCLE"}, "CIRCLE = 9")
    registry = shapes()
    with pytest.warns(UserWarning, match="left out") as caught:
        assert list(registry) == ["circle", "square"]
    assert len(caught) == 2
    assert registry["circle"] == 1


def test_items_can_be_set_and_deleted_as_in_a_dictionary():
    registry = shapes()
    registry["circle"] = 7
    assert registry["circle"] == 7
    del registry["circle"]
    assert list(registry) == ["square"]


def test_importing_it_loads_no_library():
    code = "import sys, mico._registry; print([m for m in ('numpy', 'jax', 'scipy', 'tyro') if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
