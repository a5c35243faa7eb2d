"""The scripted docker client itself: a fake that lets an unknown call pass would prove nothing."""

from __future__ import annotations

import pytest
from fakes.docker import KILLED, FakeDocker

from odek.errors import Interrupted
from odek.sandbox.docker import run_docker


def test_unscripted_call_fails() -> None:
    docker = FakeDocker().on("ps", "--all").on("exec", has="check")
    for args in (("ps",), ("run",), ("exec", "other"), ()):
        with pytest.raises(AssertionError, match="not in the script"):
            docker.start(*args)


def test_rules_answer_in_their_order_until_they_are_used_up() -> None:
    docker = FakeDocker().on("ps", code=1, times=1).on("ps", "-a", code=2).on("ps", code=3)
    assert [run_docker(docker, *args).code for args in (("ps", "-a"), ("ps", "-a"), ("ps",))] == [1, 2, 3]
    docker.assert_all_used()


def test_rule_that_was_never_used_is_told() -> None:
    with pytest.raises(AssertionError, match="never called"):
        FakeDocker().on("ps").assert_all_used()


def test_answer_is_whole_after_a_wait() -> None:
    docker = FakeDocker().on("x", stdout=b"\xff", stderr="e", code=7)
    done = run_docker(docker, "x", stdin=b"in")
    assert (done.stdout.data, done.stderr.text, done.code, done.timed_out) == (b"\xff", "e", 7, False)
    assert (docker.calls[0].stdin, docker.calls[0].hold_stdin) == (b"in", False)


def test_client_that_hangs_lets_time_pass_until_it_is_killed() -> None:
    docker = FakeDocker().on("x", hang=True)
    start = docker.now()
    done = run_docker(docker, "x", timeout_s=3)
    assert (done.timed_out, done.code, round(docker.now() - start)) == (True, KILLED, 3)


def test_client_that_holds_ends_with_its_stdin() -> None:
    docker = FakeDocker().on("x", stdout="r", hold=True)
    client = docker.start("x", hold_stdin=True)
    client.pump(1)
    client.pump(1)
    assert (client.exited, client.stdout.text) == (False, "r")
    client.release()
    assert (client.exited, client.finished) == (True, True)
    with pytest.raises(AssertionError):
        docker.assert_no_client_left()
    client.close()
    docker.assert_no_client_left()


def test_interrupt_comes_where_it_was_scripted() -> None:
    docker = FakeDocker().on("a", raises=Interrupted(2)).on("b", stdout="x", raises_in_pump=Interrupted(2))
    with pytest.raises(Interrupted):
        docker.start("a")
    client = docker.start("b")
    with pytest.raises(Interrupted):
        client.pump(1)
    client.pump(1)
    assert client.stdout.text == "x"
