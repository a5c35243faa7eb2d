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
    "9.5 (1)": "e2e/test_run.py::test_answer_is_all_of_stdout_and_the_block_ends_what_the_model_is_told "
    "e2e/test_run.py::test_container_is_gone_when_the_run_has_ended",
    "9.5 (2)": "e2e/test_signals.py::test_command_ends_with_odek e2e/test_signals.py::test_terminal_ends_a_run "
    "e2e/test_sessions.py::test_session_goes_on_after_any_signal_in_the_middle_of_a_call "
    "e2e/test_sessions.py::test_session_goes_on_after_its_terminal_was_closed",
    "9.5 (3)": "e2e/test_acceptance.py::test_setting_that_is_wrong_ends_it_before_the_model_is_asked",
    "9.5 (4)": "e2e/test_acceptance.py::test_project_that_asks_for_more_is_refused_by_every_command",
    "9.5 (5)": "unit/danger/test_examples.py::test_class_is_the_documented_one "
    "unit/danger/test_examples.py::test_fault_of_the_predecessor_is_none_of_ours "
    "unit/danger/test_policy.py::test_operator_settings_win_over_the_table",
    "9.5 (6)": "e2e/test_acceptance.py::test_no_tool_writes_beyond_the_workspace",
    "9.5 (7)": "e2e/test_sessions.py::test_two_turns_at_once_on_one_session "
    "e2e/test_sessions.py::test_many_sessions_at_once_are_all_there",
    "9.5 (8)": "e2e/test_acceptance.py::test_large_result_is_whole_text_with_its_exit_code",
    "9.5 (9)": "e2e/test_asking.py::test_hostile_texts_cannot_rewrite_the_card",
    "9.5 (10)": "unit/agent/test_loop.py::test_overflow_after_steps_sends_less_and_goes_on "
    "e2e/test_long_run.py::test_a_long_conversation_is_trimmed_and_goes_on",
}
FAULTS = {
    "B03": "e2e/test_raw_output.py::test_bytes_that_are_no_text_survive_a_session",
    "B04": "e2e/test_acceptance.py::test_endless_output_stays_out_of_memory "
    "integration/test_container_stop.py::test_endless_output_is_counted_in_bounded_memory",
    "B05": "e2e/test_run.py::test_command_that_reads_stdin_sees_its_end "
    "e2e/test_repl.py::test_line_typed_while_a_command_reads_is_the_next_entry",
    "B06": "e2e/test_terminal_programs.py::test_commands_in_the_sandbox_have_no_terminal "
    "e2e/test_terminal_programs.py::test_commands_on_the_host_have_no_terminal",
    "B14": "integration/test_container_commands.py::test_command_of_any_length_runs "
    "unit/host_executor/test_commands.py::test_run_takes_commands_of_any_length",
    "B37": "e2e/test_project.py::test_file_that_cannot_be_read_as_meant_ends_the_run",
    "B38": "e2e/test_project.py::test_file_that_cannot_be_read_as_meant_ends_the_run",
    "B39": "unit/model/test_calls.py::test_stream_gives_each_call_once "
    "unit/model/test_calls.py::test_what_cannot_be_told_apart_is_never_one_valid_call "
    "unit/model/test_calls.py::test_old_function_call_field_is_a_call "
    "unit/model/test_http.py::test_calls_go_back_with_the_ids_they_came_under",
    "B40": "unit/model/test_http.py::test_answer_that_breaks_off_is_asked_for_again_while_nothing_was_shown "
    "unit/model/test_http.py::test_answer_that_breaks_off_after_text_was_shown_begins_anew "
    "unit/model/test_http.py::test_reply_cut_at_its_limit_says_so_and_holds_no_half_arguments "
    "unit/model/test_http.py::test_web_page_is_no_answer "
    "unit/model/test_http.py::test_silent_server_is_given_up_after_the_idle_time "
    "unit/model/test_http.py::test_endless_answer_is_given_up_after_the_total_time "
    "unit/model/test_http.py::test_answer_of_any_size_takes_bounded_memory",
    "B41": "unit/model/test_http.py::test_retry_after_replaces_the_wait_within_bounds "
    "unit/model/test_http.py::test_refusal_is_final_and_says_what_to_do "
    "unit/model/test_http.py::test_signal_ends_every_wait_and_closes_the_connection",
    "B42": "e2e/test_long_run.py::test_a_file_of_one_huge_line_fits_after_all "
    "e2e/test_long_run.py::test_a_long_conversation_is_trimmed_and_goes_on "
    "e2e/test_long_run.py::test_a_task_that_is_too_long_is_an_error_at_once "
    "e2e/test_long_run.py::test_a_server_that_always_finds_it_too_long_ends_the_run",
    "B43": "unit/model/test_endpoint.py::test_no_proxy "
    "unit/model/test_http_tls.py::test_private_ca_of_ssl_cert_file_is_believed "
    "unit/model/test_http_tls.py::test_certificate_that_is_not_trusted_ends_the_call_at_once "
    "unit/model/test_http.py::test_compressed_answer_is_decoded "
    "unit/model/test_http_tls.py::test_proxy_that_refuses_is_named_without_its_password "
    "unit/model/test_endpoint.py::test_proxy_that_cannot_be_used_is_a_clear_error_without_its_password",
    "B44": "e2e/test_sessions.py::test_session_goes_on_after_any_signal_in_the_middle_of_a_call "
    "e2e/test_sessions.py::test_session_goes_on_after_its_terminal_was_closed",
    "B45": "e2e/test_sessions.py::test_two_turns_at_once_on_one_session "
    "unit/session/test_processes.py::test_many_processes_make_many_sessions "
    "e2e/test_repl.py::test_session_in_use_is_refused_with_the_holder",
    "B46": "e2e/test_sessions.py::test_damaged_files_are_told_and_hide_nothing "
    "unit/session/test_processes.py::test_full_disk_costs_nothing_that_was_stored",
    "B47": "e2e/test_acceptance.py::test_half_a_character_of_the_model_breaks_nothing "
    "e2e/test_streams.py::test_locale_does_not_change_what_is_printed",
    "B48": "unit/test_checklist.py::test_wall_clock_stamps_and_never_measures",
    "B54": "integration/test_tools_in_container.py::test_batch_patch_keeps_bytes_modes_and_order "
    "unit/tools/test_files.py::test_patch_changes_the_bytes_that_were_named_and_no_others "
    "unit/tools/test_files.py::test_patch_changes_nothing_when_it_cannot_be_done_exactly",
}


@pytest.mark.parametrize(("check", "tests"), [*ACCEPTANCE.items(), *FAULTS.items()])
def test_check_has_its_tests(check: str, tests: str) -> None:
    for test in tests.split():
        path, _, name = test.partition("::")
        tree = ast.parse((ROOT / "tests" / path).read_text(encoding="utf-8"))
        found = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert name in found, test
        assert check in (ast.get_docstring(found[name]) or ""), test


STAMPS = {
    "approval/store.py": "when something was trusted",
    "cli/conversation.py": "when a turn began",
    "cli/commands/sessions.py": "how old a session is",
    "cli/session.py": "since when Docker's log is read",
    "model/http.py": "a date in Retry-After",
    "sandbox/build/builder.py": "how old a left copy is",
    "sandbox/container/mount_probe.py": "how old a file is",
    "setup/image.py": "when an image was built",
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
