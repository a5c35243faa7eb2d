"""Which test holds what: the acceptance checks (runtime 9.5) and the faults of other tools that concern the agent.

A name that is no test, or a test whose docstring does not name the check, fails here.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

ACCEPTANCE = {
    "9.5 (1)": "test_answer_is_all_of_stdout_and_the_block_ends_what_the_model_is_told "
    "test_container_is_gone_when_the_run_has_ended",
    "9.5 (2)": "test_command_ends_with_odek test_terminal_ends_a_run "
    "test_session_goes_on_after_any_signal_in_the_middle_of_a_call "
    "test_session_goes_on_after_its_terminal_was_closed",
    "9.5 (3)": "test_setting_that_is_wrong_ends_it_before_the_model_is_asked",
    "9.5 (4)": "test_project_that_asks_for_more_is_refused_by_every_command",
    "9.5 (5)": "test_class_is_the_documented_one "
    "test_fault_of_the_predecessor_is_none_of_ours "
    "test_operator_settings_win_over_the_table",
    "9.5 (6)": "test_no_tool_writes_beyond_the_workspace",
    "9.5 (7)": "test_two_turns_at_once_on_one_session test_many_sessions_at_once_are_all_there",
    "9.5 (8)": "test_large_result_is_whole_text_with_its_exit_code",
    "9.5 (9)": "test_hostile_texts_cannot_rewrite_the_card",
    "9.5 (10)": "test_overflow_after_steps_sends_less_and_goes_on test_a_long_conversation_is_trimmed_and_goes_on",
}
FAULTS = {
    "B03": "test_bytes_that_are_no_text_survive_a_session",
    "B04": "test_endless_output_stays_out_of_memory test_endless_output_is_counted_in_bounded_memory",
    "B05": "test_command_that_reads_stdin_sees_its_end test_line_typed_while_a_command_reads_is_the_next_entry",
    "B06": "test_commands_in_the_sandbox_have_no_terminal test_commands_on_the_host_have_no_terminal",
    "B14": "test_command_of_any_length_runs",
    "B37": "test_file_that_cannot_be_read_as_meant_ends_the_run",
    "B38": "test_file_that_cannot_be_read_as_meant_ends_the_run",
    "B39": "test_stream_gives_each_call_once "
    "test_what_cannot_be_told_apart_is_never_one_valid_call "
    "test_old_function_call_field_is_a_call "
    "test_calls_go_back_with_the_ids_they_came_under",
    "B40": "test_answer_that_breaks_off_is_asked_for_again_while_nothing_was_shown "
    "test_answer_that_breaks_off_after_text_was_shown_begins_anew "
    "test_reply_cut_at_its_limit_says_so_and_holds_no_half_arguments "
    "test_web_page_is_no_answer "
    "test_silent_server_is_given_up_after_the_idle_time "
    "test_endless_answer_is_given_up_after_the_total_time "
    "test_answer_of_any_size_takes_bounded_memory",
    "B41": "test_retry_after_replaces_the_wait_within_bounds "
    "test_refusal_is_final_and_says_what_to_do "
    "test_signal_ends_every_wait_and_closes_the_connection",
    "B42": "test_a_file_of_one_huge_line_fits_after_all "
    "test_a_long_conversation_is_trimmed_and_goes_on "
    "test_a_task_that_is_too_long_is_an_error_at_once "
    "test_a_server_that_always_finds_it_too_long_ends_the_run",
    "B43": "test_no_proxy "
    "test_private_ca_of_ssl_cert_file_is_believed "
    "test_certificate_that_is_not_trusted_ends_the_call_at_once "
    "test_compressed_answer_is_decoded "
    "test_proxy_that_refuses_is_named_without_its_password "
    "test_proxy_that_cannot_be_used_is_a_clear_error_without_its_password",
    "B44": "test_session_goes_on_after_any_signal_in_the_middle_of_a_call "
    "test_session_goes_on_after_its_terminal_was_closed",
    "B45": "test_two_turns_at_once_on_one_session "
    "test_many_processes_make_many_sessions "
    "test_session_in_use_is_refused_with_the_holder",
    "B46": "test_damaged_files_are_told_and_hide_nothing test_full_disk_costs_nothing_that_was_stored",
    "B47": "test_half_a_character_of_the_model_breaks_nothing test_locale_does_not_change_what_is_printed",
    "B48": "test_wall_clock_stamps_and_never_measures",
    "B54": "test_batch_patch_keeps_bytes_modes_and_order "
    "test_patch_changes_the_bytes_that_were_named_and_no_others "
    "test_patch_changes_nothing_when_it_cannot_be_done_exactly",
}


@pytest.fixture(scope="module")
def documented() -> dict[str, list[str]]:
    """name of a test → what its docstring says, for each test of that name"""
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if any(name in text for tests in (*ACCEPTANCE.values(), *FAULTS.values()) for name in tests.split()):
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.FunctionDef):
                    found.setdefault(node.name, []).append(ast.get_docstring(node) or "")
    return found


@pytest.mark.parametrize(("check", "tests"), [*ACCEPTANCE.items(), *FAULTS.items()])
def test_check_has_its_tests(check: str, tests: str, documented: dict[str, list[str]]) -> None:
    for test in tests.split():
        assert any(check in said for said in documented.get(test, ())), test


STAMPS = {
    "app/sandbox_image.py": "when an image was built",
    "app/server_lessons.py": "how old a lesson is",
    "approval/command_store.py": "when a command was approved",
    "approval/server_store.py": "when an MCP server was approved",
    "approval/store.py": "when something was trusted",
    "app/stored_sessions.py": "when a turn began",
    "cli/commands/diff.py": "how long ago a turn was",
    "cli/commands/sessions.py": "how old a session is",
    "app/runtime.py": "since when Docker's log is read",
    "model/http.py": "a date in Retry-After",
    "sandbox/build/scratch.py": "how old a left copy is",
    "sandbox/container/mount_probe.py": "how old a file is",
    "snapshot/project.py": "when a turn changed files, and whether a file may have changed as it was looked at",
    "web/cards.py": "when a question was asked and answered",
}
"""where the wall clock is looked at, and for what"""


def test_wall_clock_stamps_and_never_measures() -> None:
    """B48: a clock that is set ends nothing early and lets nothing run for ever; waits go by the monotonic clock."""
    looks = re.compile(r"\btime\.time\(|\btime\.time\b(?!_)|datetime\.(?:now|utcnow|today)")
    found = {
        str(path.relative_to(ROOT / "odek"))
        for path in (ROOT / "odek").rglob("*.py")
        if looks.search(path.read_text(encoding="utf-8"))
    }
    assert found == set(STAMPS)
