"""A docker client that gives scripted answers to exact command lines."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from odek.process import Completed, Output


class DockerCalls:
    """Satisfies sandbox.docker.Docker: `DockerCalls().on("network", "ls", stdout="…")`.

    Answers to one command line are given in the order in which they were scripted, the last one
    again and again. Fails on a command line that was not scripted.
    """

    def __init__(self) -> None:
        self._answers: dict[tuple[str, ...], list[Completed]] = {}
        self.calls: list[tuple[str, ...]] = []

    def on(self, *args: str, stdout: str = "", stderr: str = "", code: int = 0, timed_out: bool = False) -> DockerCalls:
        done = Completed(
            argv=("docker", *args), code=code, stdout=_output(stdout), stderr=_output(stderr), timed_out=timed_out
        )
        self._answers.setdefault(args, []).append(done)
        return self

    def start(self, *args: str, **_options: object) -> Answer:
        self.calls.append(args)
        assert args in self._answers, f"not scripted: docker {' '.join(args)}"
        answers = self._answers[args]
        return Answer(answers.pop(0) if len(answers) > 1 else answers[0])

    def ahead(self, *_calls: tuple[str, ...]) -> AbstractContextManager[None]:
        return nullcontext()

    def assert_all_used(self) -> None:
        assert set(self.calls) == set(self._answers), f"never called: {set(self._answers) - set(self.calls)}"


class Answer:
    """A client that has already ended; satisfies sandbox.docker.DockerProcess."""

    exited = True
    finished = True

    def __init__(self, done: Completed) -> None:
        self._done = done
        self.stdout = done.stdout

    def pump(self, _timeout_s: float) -> None:
        pass

    def release(self) -> None:
        pass

    def kill(self) -> None:
        pass

    def close(self) -> None:
        pass

    def wait(self, _timeout_s: float) -> Completed:
        return self._done

    def completed(self) -> Completed:
        return self._done


def _output(text: str) -> Output:
    data = text.encode()
    return Output(head=data, tail=b"", size_bytes=len(data))
