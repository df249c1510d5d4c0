"""The JSON Schema that ships with the package: `tests.support.cli_run.answer` compares with it."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft202012Validator, ValidationError

from kfast.cli.app import commands
from tests.support.answer_schema import EXAMPLES
from tests.support.cli_run import all_commands, answer, answer_validator, run

NO_ANSWER = {"completion", "generate", "pipeline", "report", "save"}


def test_it_is_a_schema_of_every_command_that_answers():
    schema = json.loads(run("schema", "--answers").stdout)
    Draft202012Validator.check_schema(schema)
    named = set(schema["properties"]["command"]["enum"])
    assert {name for name, command in all_commands(commands)
            if any("json" in getattr(p.type, "choices", ()) for p in command.params)} == named
    assert named == dict(all_commands(commands)).keys() - NO_ANSWER


@pytest.mark.kernels
@pytest.mark.parametrize("arguments", EXAMPLES, ids=lambda a: " ".join(map(str, a[:1])))
def test_every_answer_is_as_it_says(arguments):
    command, *options = arguments
    document = answer(*command.split(), *options)
    for name in ("schema_version", "verdict", "command"):
        with pytest.raises(ValidationError):
            answer_validator().validate({**document, name: [3]})
