"""A sweep on a real Ray cluster of several nodes on this machine: what is lost is tried again, and nothing else is."""

import os
import signal
import socket
import threading

import pytest

from mico import cli
from mico.deep.training.train import Manner
from mico.sweeps import local
from small_sweeps import (
    flags_of_pair,
    is_under_way,
    left_by,
    pair_of_fleets,
    starts,
    states,
    wait_for,
    writer_of,
)
from trainings import ended, mico

ray = pytest.importorskip("ray")
cluster_utils = pytest.importorskip("ray.cluster_utils")
cluster = pytest.importorskip("mico.sweeps.cluster")

pytestmark = pytest.mark.usefixtures("quick_compilation")
STEPS = 4_000  # a minute's work if every chunk is saved


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, quick_compilation):
    """What is left by a sweep that nothing happened to, not on Ray."""
    out = tmp_path_factory.mktemp("undisturbed")
    fleets = pair_of_fleets(out, STEPS)
    local.in_turn(fleets, out, Manner(), lambda fleet, status: None)
    return fleets, left_by(fleets, out)


@pytest.fixture(scope="module")
def nodes(undisturbed):
    """A cluster whose head runs no task, and three nodes that run one each, of which one will be lost."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    found = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    for _ in range(3):
        found.add_node(num_cpus=1)
    found.wait_for_nodes()
    yield found
    found.shutdown()
    del os.environ["RAY_USAGE_STATS_ENABLED"]


def flags(nodes, out, *more):
    return [*map(str, [*flags_of_pair(STEPS), "--ray", nodes.address, "--out", out, *more])]


def saving_flags(nodes, out, *more):
    """With a checkpoint of every chunk, which takes long enough for something to happen."""
    return flags(nodes, out, "--checkpoint-seconds", 0, *more)


def parent(pid):
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])


def test_a_worker_and_then_a_whole_node_are_killed(undisturbed, nodes, tmp_path, capsys):
    fleets, expected = undisturbed
    done = []

    def sabotage():
        wait_for(lambda: all(is_under_way(fleet, tmp_path, STEPS) for fleet in fleets))
        victim = writer_of(fleets[0], tmp_path)
        os.kill(victim, signal.SIGKILL)
        done.append("worker")
        # As a node does that is about to go: the fleet saves, and goes on elsewhere.
        os.kill(writer_of(fleets[1], tmp_path), signal.SIGTERM)
        wait_for(lambda: all(starts(fleet, tmp_path) == 2 for fleet in fleets))
        raylet = parent(writer_of(fleets[1], tmp_path))
        node = next(one for one in nodes.worker_nodes if raylet_of(one) == raylet)
        nodes.remove_node(node, allow_graceful=False)
        done.append("node")

    saboteur = threading.Thread(target=sabotage, daemon=True)
    saboteur.start()
    cli.main(saving_flags(nodes, tmp_path))
    saboteur.join()
    assert done == ["worker", "node"]
    assert "All 2 fleets are finished" in capsys.readouterr().out
    assert starts(fleets[0], tmp_path) >= 2
    assert starts(fleets[1], tmp_path) >= 3
    assert left_by(fleets, tmp_path) == expected


def raylet_of(node):
    return node.all_processes["raylet"][0].process.pid


def test_the_driver_is_stopped_then_killed_and_run_again(undisturbed, nodes, tmp_path):
    fleets, expected = undisturbed
    for number, code in ((signal.SIGINT, 130), (signal.SIGKILL, -9)):
        before = [starts(fleet, tmp_path) if (tmp_path / fleet.name).exists() else 0 for fleet in fleets]
        process = mico(*saving_flags(nodes, tmp_path))

        def goes_on(process=process, before=before):
            going = [is_under_way(fleet, tmp_path, STEPS) and starts(fleet, tmp_path) for fleet in fleets]
            return all(now > then for now, then in zip(going, before, strict=True)) or process.poll() is not None

        wait_for(goes_on)
        process.send_signal(number)
        found, _, err = ended(process)
        assert found == code, err
        if number == signal.SIGINT:
            assert states(fleets, tmp_path) == ["stopped", "stopped"]
            assert "run the same command again to continue" in err
    cli.main(flags(nodes, tmp_path))
    assert left_by(fleets, tmp_path) == expected


def test_a_fleet_that_fails_and_one_that_is_lost_too_often_are_listed(undisturbed, nodes, tmp_path, capsys):
    fleets, expected = undisturbed
    pair_of_fleets(tmp_path, STEPS)
    (tmp_path / fleets[0].name).write_text("in the way")

    def sabotage():
        wait_for(lambda: is_under_way(fleets[1], tmp_path, STEPS))
        os.kill(writer_of(fleets[1], tmp_path), signal.SIGKILL)

    saboteur = threading.Thread(target=sabotage, daemon=True)
    saboteur.start()
    with pytest.raises(SystemExit) as stop:
        cli.main(saving_flags(nodes, tmp_path, "--retries", 0))
    saboteur.join()
    printed = capsys.readouterr().out
    assert stop.value.code == 1
    assert "2 of 2 fleets failed" in printed
    assert f"{fleets[0].name}: out must be a folder, but {tmp_path / fleets[0].name} is a file" in printed
    assert states(fleets, tmp_path) == ["failed", "failed"]
    (tmp_path / fleets[0].name).unlink()
    cli.main(flags(nodes, tmp_path))
    assert left_by(fleets, tmp_path) == expected


@pytest.mark.parametrize(
    ("more", "what"), [(("--cpus", "3"), "3 cores and 0 GPUs"), (("--gpus", "1"), "1 cores and 1 GPUs")]
)
def test_what_no_node_has_is_refused(nodes, tmp_path, capsys, more, what):
    with pytest.raises(SystemExit) as stop:
        cli.main(flags(nodes, tmp_path, *more))
    assert stop.value.code == 2
    assert f"a fleet needs {what}, but the nodes have 0 cores and 0 GPUs, 1 cores" in capsys.readouterr().err


def test_no_cluster_is_a_line(tmp_path, capsys, monkeypatch):
    def failing(error):
        def init(**_):
            raise error

        return init

    def refused(address):
        with pytest.raises(SystemExit) as stop:
            cli.main([*flags_of_pair(), "--out", str(tmp_path), "--ray", address])
        assert stop.value.code == 2
        return capsys.readouterr().err

    monkeypatch.setattr(cluster.ray, "init", failing(ConnectionError("nobody there")))
    assert refused("auto") == "mico: no Ray cluster at --ray auto: `ray start --head` starts one on this machine\n"
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        assert refused(address) == f"mico: no Ray cluster at --ray {address}: is it running?\n"
    monkeypatch.setattr(cluster.ray, "init", failing(RuntimeError("Version mismatch:\nRay 1 there")))
    assert "the Ray cluster at auto does not take this process: Version mismatch: Ray 1" in refused("auto")


def test_an_address_where_nobody_listens_is_refused_before_ray_waits_for_it(monkeypatch):
    monkeypatch.setattr(cluster.ray, "init", lambda **_: pytest.fail("Ray tries for minutes"))
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    for address in (f"127.0.0.1:{port}", f"ray://localhost:{port}"):
        refusal = pytest.raises(ValueError, match=f"^no Ray cluster at --ray {address}: Connection refused$")
        with refusal, cluster.connected(address):
            pass
    nowhere = f"{'a' * 64}.org:1"
    with pytest.raises(ValueError, match=f"^no Ray cluster at --ray {nowhere}: "), cluster.connected(nowhere):
        pass
