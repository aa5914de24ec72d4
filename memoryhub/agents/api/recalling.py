"""``/recall``: all that matches in short, and what fits of it whole, within a budget of tokens."""

from __future__ import annotations

from typing import Annotated, Any

from django.http import HttpResponse
from ninja import Router
from pydantic import Field

from memoryhub import shapes
from memoryhub.agents.api.schemas import RecallShape, documented
from memoryhub.agents.api.wire import answer
from memoryhub.agents.asking import Asking, Share
from memoryhub.agents.auth import READ, ApiRequest
from memoryhub.models import Memory
from memoryhub.retrieval.filters import MemoryFilter
from memoryhub.retrieval.ranking import Ranking
from memoryhub.retrieval.recall import DEFAULT_TOKENS, LEAST_TOKENS, MOST_TOKENS, Wanted, recall
from memoryhub.retrieval.weighing import Mode
from memoryhub.store.reveals import note_reveals

router = Router()


class RecallRequest(MemoryFilter, Asking):
    query: str = Field(description="Words, a phrase in quotes, a name, a question: any text is safe.")
    max_tokens: Annotated[int, Field(ge=LEAST_TOKENS, le=MOST_TOKENS)] = Field(
        DEFAULT_TOKENS, description="Of the whole answer."
    )
    ranking: Ranking = Field(
        Ranking.MEMORY_MCP,
        description="memory-mcp: match, importance, recency, frequency of use. letsgo: that of /search.",
    )
    min_score: Share | None = Field(
        None, description="What a search with this floor finds is a match; absent: the configured floor."
    )
    mode: Mode = Field("hybrid", description="How to look; the answer's mode says what could be done.")


@router.post(
    "/recall",
    auth=READ,
    response=documented(RecallShape),
    tags=["search"],
    summary="Recall within a budget of tokens",
)
def recall_memories(request: ApiRequest, wanted: RecallRequest) -> HttpResponse:
    """An index of all matches, 20 words each, and whole memories that fill what is left of ``max_tokens``.

    What is shown whole counts one access.
    """
    memories = wanted.select(wanted.clearance(request.auth))
    asked = Wanted(wanted.query, wanted.max_tokens, wanted.ranking, wanted.min_score, wanted.mode)
    actor = request.auth.actor
    return answer(
        recall(memories, asked, _detail, told=lambda shown: note_reveals(shown, actor, "api recall"))
    )


def _detail(memory: Memory, score: float) -> dict[str, Any]:
    return {**shapes.memory(memory), "score": score}
