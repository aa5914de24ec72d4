"""The two rankings of a recall."""

import pytest

from memoryhub.config import Config
from memoryhub.search.recall import Ranking, frequency, profile
from memoryhub.search.scoring import Components

PARTS = Components(match=0.5, recency=0.25, importance=0.8, trust=1.0)


@pytest.mark.parametrize(("accesses", "value"), [(0, 0.0), (5, 0.5), (20, 0.8), (95, 0.95), (-1, 0.0)])
def test_frequency_grows_with_accesses_and_never_reaches_one(accesses, value):
    assert frequency(accesses) == value
    assert frequency(10**9) < 1.0


def test_memory_mcp_weighs_match_importance_recency_and_frequency():
    weigh = profile(Ranking.MEMORY_MCP, Config()).score
    assert weigh(PARTS, 5) == pytest.approx(0.4 * 0.5 + 0.3 * 0.8 + 0.2 * 0.25 + 0.1 * 0.5)


def test_letsgo_weighs_match_recency_importance_and_trust_and_no_accesses():
    weigh = profile(Ranking.LETSGO, Config()).score
    assert weigh(PARTS, 5) == pytest.approx(0.55 * 0.5 + 0.2 * 0.25 + 0.15 * 0.8 + 0.1 * 1.0)
    assert weigh(PARTS, 5) == weigh(PARTS, 500)


def test_the_weights_of_memory_mcp_can_be_configured():
    config = Config(mcp_match_weight=0, mcp_importance_weight=0, mcp_recency_weight=0, mcp_frequency_weight=1)
    assert profile(Ranking.MEMORY_MCP, config).score(PARTS, 20) == 0.8
