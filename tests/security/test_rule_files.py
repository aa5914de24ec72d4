"""Rule files: all of them load, and errors name the file and the key."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from memoryhub.core.rule_files import RuleFileError, RuleSchema, load_rule_file
from memoryhub.security import secrets
from memoryhub.security.prompt_injection import detector, lexicon
from memoryhub.security.secrets import secret_rules
from memoryhub.security.secrets.secret_rules import CHECKS
from tools.secret_examples import make_examples

RULE = 'id = "x"\nkind = "X token"\nkeywords = ["x_"]\nregex = "x_[a-z]+"\n'


def load(path: Path, text: str, schema: type[RuleSchema]) -> RuleSchema:
    file = path / "rules.toml"
    file.write_text(text, "utf-8")
    return load_rule_file(file, schema)


class TestSecretRules:
    def test_all_files_are_loaded(self) -> None:
        names = {path.stem for path in secret_rules.RULES.glob("*.toml")}
        assert names == {*secret_rules.RULE_FILES, secret_rules.SERVICES.stem}

    def test_ids_are_unique(self) -> None:
        ids = Counter(rule.id for rule in secret_rules.load_rules())
        assert [name for name, count in ids.items() if count > 1] == []

    def test_regexes_compile(self) -> None:
        for rule in secret_rules.load_rules():
            assert rule.pattern
            assert re.compile(rule.hint)

    def test_every_match_starts_where_the_regex_is_tried(self) -> None:
        text = "\n".join(example.text for example in make_examples())
        scan = secrets.Scan(text)
        for rule in secret_rules.load_rules():
            starts = {match.start() for match in rule.pattern.finditer(text)} if rule.starts else set()
            assert starts <= set(scan.positions_of(rule.starts)), rule.id

    def test_every_check_is_used(self) -> None:
        rules = secret_rules.load_rules()
        used = {rule.check for rule in rules} | {rule.precheck for rule in rules}
        assert {name for name, check in CHECKS.items() if check not in used} == set()

    def test_service_names_are_single_lower_case_words(self) -> None:
        names = secrets.load_service_names().services
        assert [name for name in names if not re.fullmatch("[a-z0-9]+", name)] == []

    def test_defaults_and_fragments_are_filled_in(self, tmp_path: Path) -> None:
        text = f"""
            [fragments]
            digits = '[0-9]{{4}}'
            pair = '(?&digits)-(?&digits)'
            [defaults]
            check = "always"
            [[rules]]
            {RULE.replace('"x_[a-z]+"', "'x_(?&pair)'")}
        """
        [rule] = load(tmp_path, text, secret_rules.SecretRuleFile).rules
        assert rule.pattern.fullmatch("x_1234-5678")
        assert rule.check is CHECKS["always"]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("[[rules]", "rules.toml: Expected"),
            ("[[rules]]\n", "rules.0.id: Field required"),
            ("rules = 1", "rules: Input should be a valid tuple"),
            ("defaults = 1\nrules = []", "defaults: Input should be a valid dictionary"),
            (f"[[rules]]\n{RULE}colour = 1", "rules.0.colour: Extra inputs"),
            (f'[[rules]]\n{RULE}check = "is_nice"', "unknown check 'is_nice'"),
            (f"[[rules]]\n{RULE}".replace("x_[a-z]+", "(?&hex)"), "unknown fragment 'hex'"),
            (f"[[rules]]\n{RULE}".replace('["x_"]', '["X_"]'), "write it in lower case"),
            (f"[[rules]]\n{RULE}".replace('["x_"]', "[]"), "rules.0.keywords"),
        ],
    )
    def test_error_names_the_key(self, tmp_path: Path, text: str, message: str) -> None:
        with pytest.raises(RuleFileError, match=re.escape(message)):
            load(tmp_path, text, secret_rules.SecretRuleFile)


class TestPromptInjectionRules:
    def test_all_files_are_loaded(self) -> None:
        assert {path.stem for path in detector.EVIDENCE.glob("*.toml")} == set(detector.KINDS)

    def test_every_language_sets_instructions_aside(self) -> None:
        languages: dict[str, set[str]] = {}
        for file in lexicon.load_words():
            languages.setdefault(file.language, set()).update(file.parts)
        assert len(languages) >= 25
        assert [name for name, parts in languages.items() if parts.isdisjoint({"ignore", "ignoreend"})] == []

    def test_symbols_are_single_characters(self) -> None:
        symbols = {symbol for found in lexicon.LEXICON.members.values() for symbol in found}
        assert all(len(symbol) == 1 for symbol in symbols)

    @pytest.mark.parametrize(
        ("schema", "text", "message"),
        [
            (lexicon.WordFile, "[parts]\n", "language: Field required"),
            (lexicon.WordFile, 'language = "Latin"\n[parts]\nignore = ["x"]', "parts.ignore"),
            (
                detector.EvidenceFile,
                '[[rules]]\nevidence = "x"\nweight = 1',
                "rules.0.pattern",
            ),
            (detector.EvidenceFile, '[[rules]]\nevidence = "x"\npattern = "y"\nweight = 3', "rules.0.weight"),
        ],
    )
    def test_error_names_the_key(
        self, tmp_path: Path, schema: type[RuleSchema], text: str, message: str
    ) -> None:
        with pytest.raises(RuleFileError, match=re.escape(message)):
            load(tmp_path, text, schema)

    def test_unknown_part_in_a_pattern_is_an_error(self) -> None:
        rule = detector.EvidenceRule(evidence="x", weight=1, pattern="{nonsense} ~3 {you}")
        with pytest.raises(RuleFileError, match=r"leak\.toml: no word has the part nonsense"):
            list(detector._compile_rule("leak", rule))
