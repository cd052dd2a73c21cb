from __future__ import annotations

from autokernel.builders.digest import digest, is_machine_fault

SOURCE = "line one\n  y = foo;\nline three\n"


def test_errors_of_both_compilers_get_their_line():
    assert digest("candidate.py:2:9: error: 'foo' was not declared\n note", SOURCE) == (
        "candidate.py:2: error: 'foo' was not declared\n    2 | y = foo;"
    )
    assert digest('candidate.py(2): error: identifier "foo" is undefined', SOURCE) == (
        'candidate.py:2: error: identifier "foo" is undefined\n    2 | y = foo;'
    )


def test_one_error_a_line_and_five_in_all():
    log = "\n".join(f"a.h:{n // 2}:1: error: number {n}" for n in range(20))
    lines = digest(log, SOURCE, "note: a hint").splitlines()
    assert lines[0] == "a.h:0: error: number 0"
    assert lines[1] == "a.h:1: error: number 2"
    assert lines[5:] == ["... and 5 more errors.", "note: a hint"]


def test_linkers_assemblers_and_silence():
    assert digest("x: in function `f':\ncandidate.cpp:(.text+0x1): undefined reference to `foo(float)'", SOURCE) == (
        "undefined reference to `foo(float)'"
    )
    assert digest("ptxas error   : Entry function 'k' uses too much shared data", SOURCE) == (
        "ptxas: error: Entry function 'k' uses too much shared data"
    )
    assert digest("[1/2] g++ ...\nFAILED: native.o\nsomething odd\nninja: build stopped", SOURCE) == "something odd"
    assert digest("", SOURCE) == "The compiler failed without a message."


def test_the_machines_faults_are_told_apart():
    assert is_machine_fault("as: native.o: No space left on device")
    assert is_machine_fault("g++: fatal error: Killed signal terminated program cc1plus")
    assert not is_machine_fault("candidate.py:2:9: error: 'foo' was not declared")
