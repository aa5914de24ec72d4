"""What sets instructions aside, and what sets new ones: English. Pure data; see ``words/__init__.py``."""

from __future__ import annotations

WORDS: dict[str, str] = {
    "ignore": """
        ignore, ignor, disregard, forget, forgot, override, bypass, neglect, overlook, disobey,
        circumvent, overrule, unlearn, pay no attention to, pay no heed to, take no notice of,
        do not follow, don't follow, stop following, quit following, no longer follow, not follow,
        do not obey, don't obey, no longer obey, stop obeying, do not listen to, don't listen to,
        stop listening to, do not comply with, do not adhere to, stop adhering to, do not apply,
        do not consider, don't consider, do not heed, do not respect, do not pay attention to,
        don't pay attention to, set aside, put aside, lay aside, refrain from following,
        refrain from applying, refrain from obeying, never mind, nevermind, break free from,
        break free of, free yourself from, free yourself of, liberate yourself from, rid yourself of,
        let go of, turn a blind eye to, opposite of, in spite of, regardless of, contrary to, act against,
        go against, deviate from, step outside, no regard for, not bound by, not be bound by, rise above,
        move beyond, do not take into account, don't worry about, do not care about, forget about,
        leave behind, do away with, pay no mind to, give no weight to, not have to follow,
        don't have to follow, don't need to follow""",
    "discard": """
        drop, discard, skip, abandon, omit, scrap, erase, delete, dismiss, clear, cancel, revoke, void,
        nullify, reset, wipe, remove, replace, undo, throw away, throw it away, throw out, leave out,
        suspend, deactivate, disable, violate, break, purge, ditch, flush, overwrite, terminate,
        supersede, rescind, withdraw, waive, reject, eliminate, turn off, switch off""",
    "deem": "leave, set, treat, consider, put, throw, cast, regard, declare, view, push",
    "aside": """
        away, aside, withdrawn, as a joke, cancelled, canceled, void, as void, as cancelled,
        null and void, obsolete""",
    "back": """
        previous, prior, above, earlier, preceding, preceeding, foregoing, former, past, aforementioned,
        aforesaid, initial, original, before, previously, beforehand, so far, until now, up to now,
        up until now, up to this point, until this point, up to here, hitherto, thus far, at the top,
        at the beginning, at the start, at the outset, existing, old, prev, pre existing, predefined,
        hardcoded, antecedent, anterior, already, given so far, current""",
    "all": """
        all, any, every, each, everything, anything, entire, whole, complete, full, whatever, the rest of,
        most, none of""",
    "everything": """
        everything, anything, all, whatever, what, all of it, all that, all this, whole conversation""",
    "wholly": """
        everything, anything, all of it, all that, all this, all of that, all of this, the whole thing,
        all about this, whole conversation""",
    "overrides": """
        overrides everything, overrides all other, takes precedence over all, has priority over all,
        replaces all other, overrules everything""",
    "orders": """
        instruction, instructions, prompt, prompts, guideline, guidelines, directive, directives, command,
        commands, orders, guidance, directions, programming, guardrails, safeguards, safety rules,
        safety filters, safety guidelines, safety protocols, content policy, content policies,
        ethical guidelines, mandate, mandates, instructs, briefing""",
    "rules": """
        rule, rules, constraint, constraints, restriction, restrictions, policy, policies, protocol,
        protocols, limits, limitations, order, task, tasks, assignment, assignments, job, role, persona,
        goal, goals, objective, objectives, boundaries, principles, ethics, training, regulations""",
    "matter": """
        context, the text, the words, the sentence, all of that, text, texts, conversation, content,
        message, messages, chat, discussion, information, input, words, paragraph, paragraphs, sentence,
        sentences, statement, statements, document, history, memory, inputs, prompts, question, request,
        dialogue, article, passage, lines, section, stuff, things, prompt text""",
    "told": """
        told, said, doing, done, been doing, entered, submitted, given, gave, received, instructed,
        programmed, trained, taught, written, stated, mentioned, discussed, provided, configured, learned,
        learnt, assigned, read, heard, came, comes, wrote, talked, asked, ordered, know, informed,
        happened, typed""",
    "void": """
        no longer apply, no longer applies, no longer valid, no longer in effect, are void, is void,
        are cancelled, are canceled, are withdrawn, does not count, does not exist, do not exist,
        doesn't exist, don't exist, do not count, doesn't count, are obsolete, must be ignored,
        should be ignored, can be ignored, are to be ignored, is to be ignored, not important,
        are revoked, has been revoked, have been revoked, are suspended, is suspended, are annulled,
        are outdated, doesn't matter, does not matter, do not matter, don't matter, were a test,
        was a test, was a draft, have been lifted, are lifted, has expired, have expired, are irrelevant,
        is irrelevant, plays no role, play no role, are null, can be set aside, may be set aside,
        have been abolished, are abolished, has been abolished, have been cancelled, have been canceled,
        has been cancelled, are hereby cancelled, can be dropped, are now void, is now void,
        no longer exist, are gone, are deleted, have been deleted, have been removed, are null and void""",
    "follow": "follow, and follow, obey, comply, listen, adhere, follow only, act on, take orders, execute",
    "these": "these, this, mine, me, my, this one, these ones, the following, next, below, new",
    "hereby": "hereby, herewith, with this i",
    "rulenumber": "rule number, rule one, rule 1, rule two, first rule",
    "exception": """
        make an exception, just this once, this once, for a second, for a moment, make an exemption""",
    "dowhat": """
        do whatever i tell you, do everything i say, do everything i tell you, do everything i ask,
        do anything i say, do anything i ask, obey my every, carry out my orders, do what i say,
        do as i say, do exactly as i say, do whatever i say, obey me, listen to me, do what i tell you,
        do as i tell you, follow my orders, follow my commands, do whatever i ask, do exactly what i say,
        obey my commands, do as you are told""",
    "protocols": """
        confidentiality, security protocols, security protocol, security measures, privacy rules,
        privacy policy, security policies, security policy, access controls, protocols, privacy,
        authorization, legal restrictions, privacy policies, ethical considerations, ethical concerns,
        security restrictions, laws, legality, company policy, content filters, content guidelines,
        moderation, safety measures, ethics, ethical standards, security rules, usage policies,
        usage policy, terms of service""",
    "updated": "updated, changed, replaced, rewritten, overwritten, reset, modified, revised",
    "nothappen": """
        didn't exist, did not happen, didn't happen, never happened, does not exist, did not exist,
        never existed""",
    "fromnow": """
        from now on, from now, from here on, from here on out, from this point on, from this point,
        from this point forward, from this point onward, from this point onwards, from this moment,
        from this moment on, from this message on, henceforth, hereafter, starting now, as of now,
        effective immediately, for the rest of this chat, for the rest of this conversation,
        for the rest of the conversation, until the end of this conversation, during this conversation,
        for the remainder of this conversation, since today, for this conversation""",
    "newtask": """
        real user question, actual user question, true question, new plan, new task, new instruction,
        new instructions, new job, new goal, new objective, new assignment, new mission, new command,
        new commands, new order, new orders, new prompt, new directive, new directives, new persona,
        new identity, new purpose, new role, new rule, new rules, updated instructions,
        updated instruction, fresh instructions, additional order, additional instruction,
        additional instructions, actual task, real task, true task, real assignment, actual assignment,
        actual instruction, actual instructions, real instructions, real question, actual question,
        real job, correct task, special instruction, special instructions, following instruction,
        following instructions, following task, following job, secret task, hidden task,
        following command, true instructions, correct prompt, true text, real text, actual text,
        true prompt, real prompt, new system prompt, updated rules, updated guidelines, new behaviour,
        new behavior, override instructions, emergency instructions, correct instructions""",
    "othertask": """
        next assignment, next topic, next step, other questions, new topic, some other questions,
        different assignment, different task, another task, other tasks, other task, another assignment,
        another exercise, another job, second job, next task, additional task, different job,
        something else, some other tasks, new request, another mission, something different, new things,
        other things, main task, important task, next job, another question""",
    "wrong": """
        was wrong, was all wrong, were wrong, is wrong, all wrong, was a mistake, was fake, was false,
        were false, was outdated, is outdated, was a test, was just a test, was only a test, was a joke,
        was only a joke, was just a joke, was an example, was just an example, was only an example,
        was filler, was only filler, are fake, is fake, is a lie, was a lie, was rubbish, was garbage,
        are lies, is irrelevant, made a mistake, was nonsense, was incorrect, was the old, fake news,
        was not correct, change of plan, changed my mind, was a test run, was just a warm up, was a draft,
        was only practice, was a trick, was just practice, not true""",
    "praise": """
        well done, great job, good job, great start, good start, great work, great, good, perfect,
        excellent, thank you, thanks, amazing, bravo, very good, nice, nicely done, you did well,
        congratulations, awesome, brilliant, finished, is finished, task complete, task completed,
        is done, was delivered""",
    "turnto": """
        start all over, start all over again, turn to, focus on, concentrate on, move on to,
        let us now focus on, let's focus on, let's move on, switch to, continue with, proceed with,
        let's start over, start over, begin again, begin anew, start anew, start again, let us start over,
        let's begin, start fresh, let's do something, now for""",
    "youractis": """
        your new task, your new job, your only job, your new goal, your sole purpose, your new objective,
        your new mission, your only task, your sole task, your only goal, your only purpose,
        your real task, your actual task, your new purpose, your new instructions, your new instruction,
        your new assignment, your task now, your job now, your next task, your real goal,
        your true purpose""",
    "yourtask": """
        your new role, your task, your job, your mission, your purpose, your role, your objective,
        your goal, your primary goal, your primary objective, your main goal, your assignment""",
    "changed": """
        task has changed, goal has changed, instructions have changed, rules have changed,
        goal has been updated, instructions have been updated, task has been updated, changed the order,
        plan has changed, role has changed, task was changed, objective has changed, mission has changed,
        prompt has been updated, change of plan, your goal has been updated, priorities have changed""",
    "nolonger": "any more, anymore, no longer",
    "nowadverb": "now",
    "is": """
        is, are, was, has, becomes, will be, is now, has been, consists, is to, are to, has been updated,
        is simple, will be to""",
    "output": "answer, answers, response, responses, reply, replies, output, outputs, completion, message",
    "queries": "queries, questions, query, prompts, messages, requests, inputs, question, message, request",
    "gerund": """
        of answering, of translating, of summarising, of summarizing, of responding, of replying,
        of following, of doing, than answering, than translating, than summarising, than summarizing,
        than responding, of what, answering, translating, summarising, summarizing, responding, replying,
        of completing, of helping, of analysing, of the weather, of processing, of classifying,
        of analyzing, of evaluating, of describing, of the summary""",
    "answer": """
        answer, answers, reply, respond, say, write, output, print, return, speak, talk, begin, start,
        end, finish, state, type, generate, create, produce, repeat, recommend, tell, translate, confirm,
        agree, add, include, convince, pretend, act, behave, compute, spell, recite, count, give, show,
        list, reveal, compose, call, mark, rate, praise, insult, swear, summarise, summarize, ask,
        promote, mention, sing, complete, reject, accept, ensure, append, prepend, insert, continue,
        proceed, admit, claim, advise, declare, explain, announce""",
    "utter": """
        say, print, output, reply, respond, answer, write, repeat, type, state, shout, respond with,
        reply with, answer with, echo""",
    "judgeverb": """
        classify, rate, mark, label, translate, grade, score, rank, return, confirm, recommend, approve,
        declare""",
    "taskverb": """
        translate, summarise, summarize, classify, answer, respond, analyse, analyze, evaluate, correct,
        rewrite, paraphrase, grade, label, review, process, answer the question, complete""",
    "exactly": """
        exactly, only, just, simply, nothing but, the word, the words, the phrase, the string, the text,
        the sentence, the single word, the following, verbatim, literally, after me, with just, with only""",
    "whatever": """
        no matter what, regardless, whatever happens, irrespective of, regardless of what, in any case,
        under all circumstances, no matter what it says, no matter the input, regardless of the text,
        regardless of the input, no matter how""",
    "only": """
        only, just, exactly, nothing else, nothing but, solely, simply, no other words, the word,
        the single word, the string, the text, the phrase, the sentence, the words, exact, one word,
        literally, the following""",
    "instead": "instead, rather, instead of, rather than, in place of, in lieu of",
    "stop": "stop, halt, wait, stop reading, hold on, stop here, pause, attention, listen",
    "stopwork": """
        stop answering, stop helping, stop responding, stop processing, stop reading, stop summarising,
        stop summarizing, stop translating, stop analysing, stop what you are doing, stop working on,
        stop the task, stop your task, interrupt the task, stop with that""",
    "nomatter": """
        whatever the previous, whatever the above, whatever the text, whatever the document,
        no matter what, no matter, whatever the question, regardless of what, regardless of the question,
        irrespective of, whatever happens, whatever i ask, whatever the user""",
    "whenasked": """
        when the user asks, if the user asks, when asked, if asked, whenever the user asks,
        when a user asks, when someone asks, if anyone asks, when you are asked, if you are asked,
        every time""",
    "whendoing": """
        when summarising, when summarizing, when answering, when responding, when replying,
        when processing, while summarising, while summarizing, when you summarise, when you summarize,
        when you answer, when you respond""",
    "before": """
        before you, before you do, before you translate, before you answer, before you continue,
        before continuing, before doing anything, before you do anything, before you read,
        before using this tool, before you use, before you can, before answering, before responding,
        before you respond, before we go on, before you reply, before you proceed, before proceeding,
        before anything else""",
    "tocontinue": """
        to continue, in order to continue, to proceed, in order to proceed, to unlock, to restore,
        to finish""",
    "goon": """
        then you can go on, then you can continue, you can solve the task, then you can solve,
        go on with the task, then continue with the task, proceed with your task, continue with your task,
        continue your task, then continue with the original, solve the task that i gave,
        go back to the original, afterwards answer, before you can solve, then proceed with the user,
        continue with the original task, complete the original task""",
    "secretly_said": """
        hidden instruction, hidden instructions, secret instruction, hidden command, secret command""",
    "claimed": "true, correct, right, wrong, safe, verified, trusted",
    "own": "summary, response, reply, answer, output",
    "put": """
        mention, say, tell, state, include, add, claim, recommend, insert, write, append, praise, promote,
        advertise""",
    "readers": "reader, user, users, customer, them, person, people, recipient, human",
    "granted": """
        access granted, access code accepted, i have been pwned, pwned, been pwned, have been hacked,
        i have been hacked, haha pwned, been hacked, i've been owned""",
    "say": "say, print, output, reply, respond, answer, reply with, respond with, answer with",
    "saynothing": """
        say nothing but, write nothing but, output nothing but, print nothing but, answer nothing but,
        reply with nothing but""",
    "fakeend": """
        end of data, end of document, end of the document, end of user input, end of prompt,
        end of instructions, end of input, end of context, begin instructions, end of system prompt,
        start of instructions, end of conversation, end of the original assignment,
        end of original assignment, memory ends here, end of query, end of message, end of memory,
        end of the prompt, end of the text, end of user message, begin new instructions,
        start of new instructions, begin system prompt, end of system message, end of untrusted data,
        end of article, start of the new assignment, end of email, end of the email, end of the article,
        user input ends""",
    "sysnotice": """
        system update, system message, system notice, system override, new policy, system alert,
        priority override, admin notice""",
    "poison": """
        remember for all future, store this in your, save this in your, add to memory,
        add this to your memory, memorise this, memorize this, your memory has been updated,
        update your memory, keep in mind for all future, for all future conversations,
        for all future responses, in all future conversations, save to memory""",
    "promote": "recommend, promote, advertise, praise, endorse, suggest",
    "version": "version, side, self, twin, mode",
}
