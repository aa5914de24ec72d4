"""New help texts. The database has no trace of them, so only the state of the models changes."""

from django.db import migrations
from django.db.migrations.operations.base import Operation


class SetHelpTexts(Operation):
    def __init__(self, model_name, **texts):
        self.model_name = model_name
        self.texts = texts

    def state_forwards(self, app_label, state):
        state.__dict__.pop("apps", None)  # else all related models are rendered again for each field
        for name, text in self.texts.items():
            field = state.models[app_label, self.model_name].fields[name].clone()
            field.help_text = text
            state.alter_field(app_label, self.model_name, name, field, preserve_default=True)

    def database_forwards(self, app_label, schema_editor, from_state, to_state):
        pass

    def database_backwards(self, app_label, schema_editor, from_state, to_state):
        pass

    def describe(self):
        return f"Set help texts of {self.model_name}"


class Migration(migrations.Migration):
    dependencies = [("memoryhub", "0025_project_caps")]

    operations = [
        SetHelpTexts(
            "agenttoken",
            audience="The only MCP server that accepts this token. Empty for all.",
            owner="The person whose personal memories this token reads and writes.",
            prefix="The first characters of the token.",
            waiting_events="Events that the agent's machine has not sent yet.",
        ),
        SetHelpTexts(
            "clockstate",
            ahead="Unconfirmed seconds by which the wall clock is ahead.",
            at="The wall clock at the last reading.",
            boot="The id of the boot. Empty if the system has none.",
            days="The days on which the clock was read, in order.",
            proven="Less time has passed than the wall clock shows.",
            seconds="Seconds from the boot to the last reading.",
            waited="Seconds of uptime since the clock was found ahead.",
        ),
        SetHelpTexts(
            "codereference",
            as_of="The time of the event that the lines were last compared with.",
            dismissed="Changes that a person dismissed, by the id of the action.",
            gone="Lines that an event showed to be removed.",
        ),
        SetHelpTexts(
            "digest",
            hub_url="The address of the hub, used in links.",
            level="The highest level included in e-mails. Webhooks receive only public memories.",
            project="Leave empty for all projects that the person can see.",
            secret="The key that signs webhook requests.",  # noqa: S106
            url="The URL of the webhook.",
        ),
        SetHelpTexts(
            "event",
            digests="Hashes of what the agent wrote after an injection.",
            handlers="The result of each handler, in order.",
            lines="Hashes of the lines of the file, stored until the session ends.",
            mark="Identifies a repeated delivery. Empty if the event cannot be repeated.",
        ),
        SetHelpTexts(
            "extraction",
            extractor="What extracted the memories: rules or the language model.",
            reach="The clearance that limits what it stores.",
            result="The outcome and the id for each candidate.",
        ),
        SetHelpTexts(
            "fact",
            copy="Above 0 if an identical row exists that the author of this one may not see.",
        ),
        SetHelpTexts(
            "injection",
            helped="Whether the agent used a memory that was sent. Empty if undecided.",
            injected="Id, score, scale and outcome of each memory that was sent.",
            page="Kind and id of each line of the project page that was sent.",
            withheld="Id and reason of each withheld memory.",
        ),
        SetHelpTexts(
            "lease",
            holder="The process and thread that hold the lease.",
            position="Where the next holder continues.",
            taken_at="By the clock of the database.",
            term="How many holders the lease has had.",
        ),
        SetHelpTexts(
            "maintenancerun",
            day="The day of the daily maintenance that this run belongs to.",
            interruptions="How often its worker stopped before it finished.",
            position="Where an interrupted run continues.",
            project="The project to run on. Empty for all projects that the run may access.",
            reach="The clearance that limits the run.",
            result="The number of changes of each kind.",
            undoes="The run that this one undoes.",
            worker="The process and thread that execute it.",
        ),
        SetHelpTexts(
            "membership",
            clearance="Leave empty to use the levels of the person's own permissions.",
        ),
        SetHelpTexts(
            "memory",
            abstract="A one-line summary.",
            alias_text="The aliases, one per line, for the full-text index.",
            author="Who stored it first.",
            confidence="How certain the statement is, from 0 to 1.",
            consolidated_accesses="The access count at the last consolidation, so that each access counts "
            "once.",
            copy="Above 0 if an identical row exists that the author of this one may not see.",
            flags="Keywords for reviewers.",
            helped_count="How often agents used it after it was sent.",
            imported_at="When a person imported it. Maintenance counts its age from this time.",
            inspected="Digest of the texts in which the prompt injection detector last found nothing.",
            key="Unique within project, scope and owner.",
            outdated_at="When the code that it refers to changed, so that it may be outdated.",
            overview="A summary of one paragraph.",
            owner="The owner, if the scope is personal.",
            pinned_at="When it was pinned. A pinned memory opens every session of its project and "
            "never expires.",
            scale="The time scale that it was promoted to.",
            shown_count="How often it was sent to agents.",
            superseded_by="The memory that replaces this one. Shown only to people who can see that memory.",
            trust="How far the source is trusted, from 0 to 1.",
            ttl_days="Days until it expires. Leave empty to keep it forever.",
        ),
        SetHelpTexts(
            "memorycheck",
            never_level="This level and all more sensitive levels.",
            owner="The person whose clearance limits what a run can see.",
        ),
        SetHelpTexts(
            "oauthclient",
            name="The name that the app registered. It is not verified.",
        ),
        SetHelpTexts(
            "oauthcode",
            grant="Name, clearance, permissions, projects and expiry of the token.",
        ),
        SetHelpTexts(
            "profile",
            confined="Sees only the projects that they are a member of. Set with the first membership "
            "and kept after the last one ends, so that removing it never reveals other projects.",
            language="The language of dates. Leave empty for plain dates such as 2026-11-20.",
            looked_at="When this person last finished the review.",
            theme="Light or dark. Leave empty to follow the device.",
            time_zone="Leave empty to use the hub's time zone.",
        ),
        SetHelpTexts(
            "project",
            ignored_paths="File patterns, in the syntax of .gitignore.",
            max_memories="Maximum number of memories per owner. 0 for no limit; empty for the default.",
            off_page_facts="Ids of public facts that the project page omits.",
            sends_page="Send the project page to agents at the start of a session.",
        ),
        SetHelpTexts(
            "revision",
            before="The replaced values, by field name.",
            reason="Why the version was replaced: an update, a merge, an upsert by key or a "
            "restored version.",
        ),
        SetHelpTexts(
            "savedsearch",
            page="The list that this search opens.",
            query="The query string of the search.",
        ),
        SetHelpTexts(
            "serverprocess",
            clock_at="The clock of the process at that moment.",
            heartbeat_at="When the process last renewed this row, by the clock of the database.",
            key_digest="Identifies the secret key of the node without revealing it.",
            node="The name of the node.",
            pid="The process id on that machine.",
            process="Machine, process id and start time.",
            started_at="By the clock of the database.",
            version="The version that the process runs.",
        ),
        SetHelpTexts(
            "session",
            state="Working state of capture and boundaries.",
        ),
    ]
