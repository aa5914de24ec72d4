"""All tunables in one immutable model, each with a default, a range and a description."""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar

from annotated_types import Ge, Le
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.fields import FieldInfo

_TRUE, _FALSE = {"1", "true", "yes", "on"}, {"0", "false", "no", "off"}


def parse_flag(raw: str) -> bool:
    """Parse ``1/true/yes/on`` or ``0/false/no/off``, ignoring case. Raise ValueError for anything else."""
    word = raw.strip().lower()
    if word not in _TRUE | _FALSE:
        raise ValueError(raw)
    return word in _TRUE


def _whole_number(raw: object) -> object:
    if isinstance(raw, bool | float):
        raise ValueError
    return int(raw) if isinstance(raw, str) else raw


def _number(raw: object) -> object:
    if isinstance(raw, bool):
        raise ValueError
    return raw


Flag = Annotated[bool, BeforeValidator(lambda raw: parse_flag(str(raw)))]
Int = Annotated[int, BeforeValidator(_whole_number)]
Float = Annotated[float, BeforeValidator(_number)]


def _tunable(default: float, doc: str, low: float, high: float | None = None) -> Any:
    return Field(default, description=doc, ge=low, le=high)


def _flag(default: bool, doc: str) -> Any:
    return Field(default, description=doc)


def _text_tunable(default: str, doc: str, form: str, shown: str) -> Any:
    """A text that matches a regular expression. ``shown``: a description of the form."""
    return Field(default, description=doc, pattern=f"^(?:{form})$", json_schema_extra={"shown": shown})


def limits(spec: FieldInfo) -> tuple[float, float]:
    """Return the least and the greatest valid value, infinite without a limit."""
    low: Any = next((limit.ge for limit in spec.metadata if isinstance(limit, Ge)), -math.inf)
    high: Any = next((limit.le for limit in spec.metadata if isinstance(limit, Le)), math.inf)
    return low, high


def expected_form(spec: FieldInfo) -> str:
    """Describe the valid texts, or return an empty string for other types."""
    return str(spec.json_schema_extra["shown"]) if isinstance(spec.json_schema_extra, dict) else ""


class Config(BaseModel):
    """The tunables. Ranges are inclusive. The names contain the units."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True, allow_inf_nan=False)
    # Django asks a setting for this at every access. Without it, pydantic builds an error each time.
    _mask_wrapped: ClassVar[bool] = True

    # Store
    max_memories: Int = _tunable(
        1000, "maximum number of live memories of one owner in a project; 0: no limit", 0, 10**9
    )
    cap_warning_share: Float = _tunable(
        0.9, "share of the cap from which the dashboard shows a warning", 0, 1
    )
    default_ttl_days: Int = _tunable(
        90,
        "days until a memory without ttl_days expires, except those of Mira, pigo and /extract; 0: never",
        0,
        36500,
    )
    expiry_grace_days: Int = _tunable(30, "days during which an expired memory can be restored", 0, 36500)
    max_batch: Int = _tunable(1000, "maximum number of memories in a batch", 1, 100_000)
    max_body_bytes: Int = _tunable(1_048_576, "maximum size of a request body, in bytes", 1024, 2**31)
    import_workers: Int = _tunable(
        1, "processes that check and embed texts in advance during a large import_memories; 0: none", 0, 64
    )
    durability: str = _text_tunable(
        "power-loss",
        "protect stored memories from a power loss (each commit is flushed to disk) or only from a crash",
        "power-loss|crash",
        "power-loss or crash",
    )
    block_secrets: Flag = _flag(True, "refuse to store text that looks like a credential")
    preview_chars: Int = _tunable(200, "length of previews in lists, in characters", 1, 10_000)
    summary_words: Int = _tunable(
        20, "words in an automatic abstract and in a line of a recall index", 1, 200
    )

    # Scored retrieval (LetsGo)
    match_weight: Float = _tunable(0.55, "share of text match in the score", 0, 1)
    recency_weight: Float = _tunable(0.20, "share of recency in the score", 0, 1)
    importance_weight: Float = _tunable(0.15, "share of importance in the score", 0, 1)
    trust_weight: Float = _tunable(0.10, "share of the source's trust in the score", 0, 1)
    recency_half_life_days: Float = _tunable(
        21.0, "days after which the recency of a memory is halved", 0.001, 36500
    )
    min_score: Float = _tunable(0.35, "results below this score are not returned", 0, 1)
    search_limit: Int = _tunable(10, "number of results of a search that names no limit", 1, 200)
    search_pool: Int = _tunable(
        200, "candidates that a search scores; a fifth of them by words and a fifth by meaning", 10, 10_000
    )

    # Embeddings: search by meaning; an endpoint's key is MEMORYHUB_EMBEDDINGS_KEY, in the environment alone
    embeddings: str = _text_tunable(
        "wordllama",
        "provider of the vectors that search by meaning compares",
        "wordllama|minilm|onnx|openai|none",
        "wordllama, minilm, onnx, openai or none",
    )
    embeddings_folder: str = _text_tunable(
        "", "onnx: full path of the folder with model.onnx and tokenizer.json", ".*", "a folder"
    )
    embeddings_url: str = _text_tunable(
        "",
        "openai: address of the endpoint including its version, such as https://host/v1",
        r"|https?://[^\s@#]+",
        "an http or https address without a password",
    )
    embeddings_model: str = _text_tunable(
        "", "openai: name of the model", r"[^\s\x00-\x1f]{0,200}", "a model's name"
    )
    embeddings_timeout_seconds: Float = _tunable(
        30, "openai: time limit of a batch including retries, in seconds", 0.1, 600
    )
    embeddings_batch: Int = _tunable(64, "openai, onnx and minilm: texts in one batch", 1, 2048)

    endpoint_private_names: Flag = _flag(
        False, "public DNS names in embeddings_url and llm_url may resolve to private addresses"
    )

    webhook_private_addresses: Flag = _flag(
        False, "webhooks of digests may use private addresses, and http for them"
    )

    # Language model: reads conversations in the background; its key is MEMORYHUB_LLM_KEY, in the environment
    llm: str = _text_tunable(
        "none",
        "openai: an OpenAI-compatible chat endpoint processes conversations; none: the built-in rules do",
        "none|openai",
        "none or openai",
    )
    llm_url: str = _text_tunable(
        "",
        "address of the chat endpoint including its version, such as https://host/v1",
        r"|https?://[^\s@#]+",
        "an http or https address without a password",
    )
    llm_model: str = _text_tunable("", "name of the chat model", r"[^\s\x00-\x1f]{0,200}", "a model's name")
    llm_timeout_seconds: Float = _tunable(
        120, "time limit of a request including retries, in seconds", 0.1, 3600
    )
    llm_tries: Int = _tunable(3, "maximum number of attempts for a request", 1, 10)
    llm_prompt_tokens: Int = _tunable(
        6000,
        "maximum number of tokens of a conversation in one request; longer conversations are split",
        500,
        1_000_000,
    )
    llm_answer_tokens: Int = _tunable(2000, "maximum number of tokens in an answer", 100, 100_000)
    llm_daily_calls: Int = _tunable(
        200, "maximum number of calls to the model per day (UTC); 0: no limit", 0, 10**9
    )
    llm_daily_tokens: Int = _tunable(
        500_000, "maximum number of tokens sent and received per day (UTC); 0: no limit", 0, 10**12
    )
    llm_sees: str = _text_tunable(
        "private",
        "highest level of the conversations and memories that the model receives",
        "public|private|secret",
        "public, private or secret",
    )
    max_extract_messages: Int = _tunable(
        2000, "maximum number of messages in a conversation to extract", 1, 100_000
    )

    # Ranking of the Memory MCP toolset
    mcp_match_weight: Float = _tunable(0.40, "share of text match in the ranking of Memory MCP", 0, 1)
    mcp_importance_weight: Float = _tunable(0.30, "share of importance in the ranking of Memory MCP", 0, 1)
    mcp_recency_weight: Float = _tunable(0.20, "share of recency in the ranking of Memory MCP", 0, 1)
    mcp_frequency_weight: Float = _tunable(
        0.10, "share of access frequency in the ranking of Memory MCP", 0, 1
    )
    mcp_ttl_days_per_importance: Int = _tunable(
        30, "Memory MCP: days of lifetime for each of the 10 steps of importance", 1, 3650
    )
    mcp_renew_importance: Float = _tunable(
        0.4, "Memory MCP: importance from which an access restarts the lifetime", 0, 1
    )
    recall_max_tokens: Int = _tunable(1000, "default token budget of a recall", 100, 100_000)

    # Deduplication
    near_duplicate_similarity: Float = _tunable(
        0.7, "cosine similarity from which two memories are near-duplicates", 0, 1
    )

    # Capture: memorability, boundaries
    memorability_threshold: Float = _tunable(
        0.30, "observations with a lower memorability are not stored", 0, 1
    )
    substance_weight: Float = _tunable(0.30, "share of substance in memorability", 0, 1)
    salience_weight: Float = _tunable(0.30, "share of salience in memorability", 0, 1)
    distinctiveness_weight: Float = _tunable(0.25, "share of distinctiveness in memorability", 0, 1)
    type_weight: Float = _tunable(0.15, "share of the type's weight in memorability", 0, 1)
    boundary_similarity: Float = _tunable(
        0.10, "keywords with a lower Jaccard similarity start a new segment", 0, 1
    )
    boundary_window: Int = _tunable(8, "tool outputs in the sliding window that detects boundaries", 1, 1000)
    event_preview_chars: Int = _tunable(300, "characters of a tool's output that an event stores", 0, 10_000)
    event_retention_days: Int = _tunable(180, "days until events are removed; 0: never", 0, 36500)
    checkpoint_events: Int = _tunable(
        100, "tool calls after which a session is summarised; 0: never", 0, 10**6
    )

    # Temporal scales
    immediate_minutes: Float = _tunable(5, "age at which the immediate scale ends, in minutes", 0)
    task_minutes: Float = _tunable(30, "age at which the task scale ends, in minutes", 0)
    session_minutes: Float = _tunable(120, "age at which the session scale ends, in minutes", 0)
    immediate_count: Int = _tunable(1, "memories of the immediate scale in an injection", 0, 100)
    task_count: Int = _tunable(2, "memories of the task scale in an injection", 0, 100)
    session_count: Int = _tunable(1, "memories of the session scale in an injection", 0, 100)
    project_count: Int = _tunable(1, "memories of the project scale in an injection", 0, 100)
    promotion_accesses: Int = _tunable(
        3, "number of accesses within its scale that promote a memory", 1, 1000
    )

    # Consolidation and eviction
    consolidation_decay_rate: Float = _tunable(0.02, "importance that an unused memory loses per day", 0, 1)
    consolidation_boost: Float = _tunable(
        0.03, "importance gained by use since the last run: this times ln(1 + accesses)", 0, 1
    )
    protected_decay_share: Float = _tunable(
        0.5, "share of the decay that applies to decisions and discoveries", 0, 1
    )
    evict_min_importance: Float = _tunable(0.05, "unused memories with a lower importance are evicted", 0, 1)
    evict_after_days: Int = _tunable(90, "days without an access before a memory is evicted", 0, 36500)

    # Compression
    compression_similarity: Float = _tunable(0.5, "Jaccard similarity of terms that links two memories", 0, 1)
    compression_min_members: Int = _tunable(3, "minimum number of memories in a cluster", 2, 1000)
    compression_min_age_days: Int = _tunable(7, "minimum age of memories to compress, in days", 0, 36500)
    summarize_older_than_days: Int = _tunable(
        30, "minimum age of memories for summarize_old, in days", 0, 36500
    )
    summarize_min_entries: Int = _tunable(
        5, "minimum number of memories of a category for summarize_old", 2, 10_000
    )

    # Injection
    token_budget: Int = _tunable(2000, "maximum number of tokens in a memory-context block", 0, 100_000)
    pinned_token_budget: Int = _tunable(
        1000,
        "maximum tokens of pinned memories at the start of a session, in addition to token_budget",
        0,
        100_000,
    )
    project_page_tokens: Int = _tunable(
        800,
        "tokens that the project's page can take of token_budget at the start of a session; 0: no page",
        0,
        800,
    )
    max_inject_count: Int = _tunable(5, "maximum number of memories in one injection", 0, 100)
    injection_min_score: Float = _tunable(0.35, "memories with a lower score are not injected", 0, 1)
    outdated_memories: str = _text_tunable(
        "mark",
        "memories whose code has changed: inject them with a mark, or withhold them",
        "mark|withhold",
        "mark or withhold",
    )
    tool_token_budget: Int = _tunable(
        300,
        "maximum number of tokens of the memories for a file or a failed command; 0: none",
        0,
        100_000,
    )
    tool_deadline_ms: Int = _tunable(
        150, "time limit for adding memories to a tool call, in milliseconds", 1, 60_000
    )
    injection_deadline_ms: Int = _tunable(
        300, "time limit of an injection, in milliseconds; after it nothing is injected", 1, 60_000
    )

    # Import and export
    max_upload_mb: Int = _tunable(
        512, "maximum size of a file that is imported in the browser or over the API, in MiB", 1, 1_000_000
    )

    # Rate limits of API, tools, hooks and MCP, for each worker process
    rate_per_token: Float = _tunable(
        200, "sustained requests per second with one token; 0: no limit", 0, 1_000_000
    )
    rate_burst_token: Int = _tunable(30_000, "requests with one token above that rate in a burst", 1, 10**9)
    rate_per_address: Float = _tunable(
        400, "sustained requests per second from one address of another machine; 0: no limit", 0, 1_000_000
    )
    rate_burst_address: Int = _tunable(
        60_000, "requests from one address above that rate in a burst", 1, 10**9
    )
    refusals_per_minute: Int = _tunable(
        60, "invalid tokens per minute from one address of another machine; 0: no limit", 0, 10**6
    )
    oauth_registration: Flag = _flag(
        True, "apps may register themselves for OAuth; each needs a person's approval"
    )
    request_seconds: Float = _tunable(30, "time limit of a database read, in seconds; 0: no limit", 0, 3600)

    # Capabilities that can be switched off
    capability_memorability: Flag = _flag(True, "memory.memorability: only memorable observations are stored")
    capability_boundaries: Flag = _flag(True, "memory.boundaries: sessions are split into segments")
    capability_temporal: Flag = _flag(True, "memory.temporal: injections balance the four scales")
    capability_consolidation: Flag = _flag(True, "memory.consolidation: importance depends on use")
    capability_compression: Flag = _flag(True, "memory.compression: similar old memories become one")

    # Maintenance
    session_end_consolidation: str = _text_tunable(
        "auto", "consolidate the project when a session ends", "auto|manual", "auto or manual"
    )
    session_end_compression: str = _text_tunable(
        "auto", "compress the project when a session ends", "auto|manual", "auto or manual"
    )
    inline_maintenance_limit: Int = _tunable(
        1000,
        "number of memories up to which a project is maintained in the event that ends a session",
        0,
        10**6,
    )
    maintenance_worker: Flag = _flag(True, "the server processes queued maintenance runs")
    maintenance_step_ms: Int = _tunable(
        20, "target duration of each write of a run, in milliseconds", 1, 10_000
    )
    maintenance_at: str = _text_tunable(
        "03:30",
        "time of the daily maintenance in MEMORYHUB_TIME_ZONE; empty: no daily maintenance",
        r"|([01]\d|2[0-3]):[0-5]\d",
        "HH:MM or empty",
    )
    maintenance_operations: str = _text_tunable(
        "purge_expired,prune_events,consolidate,compress,embed,memory_checks",
        "operations of the daily maintenance, in this order",
        r"|[a-z_]+(,[a-z_]+)*",
        "names separated by commas",
    )


# The weights in each group add up to 1.
WEIGHT_GROUPS = (
    ("match_weight", "recency_weight", "importance_weight", "trust_weight"),
    ("mcp_match_weight", "mcp_importance_weight", "mcp_recency_weight", "mcp_frequency_weight"),
    ("substance_weight", "salience_weight", "distinctiveness_weight", "type_weight"),
)
ASCENDING_FIELDS = ("immediate_minutes", "task_minutes", "session_minutes")
