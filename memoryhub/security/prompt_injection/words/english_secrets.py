"""What is asked for, hidden, sent away or destroyed: English. Pure data; see ``words/__init__.py``."""

from __future__ import annotations

WORDS: dict[str, str] = {
    "instr": "instructions, prompt texts, directives, instruction prompts, prompts and instructions",
    "show": """
        name, show, reveal, print, repeat, output, display, tell, give, list, write, write down, copy,
        share, leak, disclose, return, recite, expose, provide, translate, encode, summarise, summarize,
        paraphrase, rephrase, dump, spell, read, state, describe, echo, reproduce, type, quote, paste,
        restate, explain, convert, remind, divulge, extract, reveals, say, transcribe, send, reads, know,
        prints, stating, retrieve, spell check, recall, enumerate, decode, publish, present, verbalise,
        put, rewrite, present me with""",
    "reveal": """
        reveal, tell, leak, disclose, divulge, give away, spell, expose, betray, hand over, share, give,
        say, let slip""",
    "tellout": """
        reveal, tell, divulge, leak, disclose, betray, whisper, give away, gives away, blurt out,
        hand out, spit out""",
    "what": "what, what's, whats, which, how, who, where",
    "secretprompt": """
        system prompt, system prompts, system message, system instruction, system instructions,
        initial prompt, original prompt, hidden prompt, hidden instructions, secret instructions,
        initial instructions, original instructions, initial instruction, developer message, pre prompt,
        preprompt, instruction set, full prompt, entire prompt, base prompt, master prompt,
        confidential guidelines, confidential instructions, internal guidelines, internal instructions,
        internal prompt, hidden rules, hidden messages, secret rules, configuration prompt, prompt text,
        developer instructions, hidden text, starting prompt, first prompt, exact instructions,
        system_prompt, internal rules, system prompt text""",
    "ownprompt": """
        prompt texts, initial text, instruction prompts, prompt, prompts, instruction, instructions,
        guidelines, rules, directives, configuration, full configuration, initialization, initialisation,
        orders, commands, system prompt, system message, system instructions, initial prompt,
        original prompt, hidden instructions, hidden rules, hidden prompt, programming,
        exact instructions, guidance, context window, training data, initial instructions,
        original instructions, secret instructions, pre prompt, prompt text, full instruction set,
        instruction set, hidden text""",
    "secret": """
        password, passphrase, secret key, secret word, secret code, secret, secrets, access code,
        passcode, secret phrase, secret password, hidden password, hidden word, pin code, codeword,
        code word, the flag, magic word, secret message, hidden message, the secret key, key phrase,
        keyphrase, access phrase, hidden flag, secret flag, secret token, unlock code""",
    "secretish": "key, word, code, flag, phrase, secret, password, it",
    "guard": """
        protecting, protect, guarding, guard, hiding, hide, keeping, keep, were given, given, know, hold,
        holding, withhold, not supposed, been given, was given, were told""",
    "verbatim": """
        verbatim, word for word, exactly, exact, in full, literally, letter by letter, word by word,
        character by character, unabridged, completely, as is, entire, entirely, complete, everything,
        full, fully, full text, first, leave anything out, leaving any out, include everything,
        code block, in a code block, json string, exact words, original text, text block, starting with,
        precede, precedes""",
    "transform": """
        base64, in reverse, with spaces, between the characters, between the letters, as a poem,
        in a poem, backwards, reversed, letter by letter, character by character, encoded, rot13,
        caesar cipher, cipher, as a riddle, in leetspeak, morse code""",
    "received": """
        were given, was given, been given, have been given, you received, you got, got, received,
        were told, been told, gave you, told you, were you given, were you told, you were given,
        you were told, operating under, you follow, you are following, operate under, you operate,
        are you following, initialised with, initialized with, set for you, your developer gave you,
        have you been given, did you receive, did you get, you have been given, you've been given,
        you start with, you began with, are you operating, do you follow, gave to you""",
    "toldyou": """
        you were programmed, you were instructed, you were configured, you were trained, you were set up,
        you were prompted, were you told, were you given, are you told, were you instructed,
        were you programmed, are you programmed, are you instructed, were you configured,
        have you been told, have you been given, you were told, you been told, you been instructed,
        you been given, you configured, you programmed, you instructed, were you trained""",
    "wordsabove": """
        at the start of our conversation, at the beginning of our conversation,
        at the beginning of the conversation, at the start of the conversation, before this one,
        at the top of this conversation, at the very top, above this line, above this message,
        everything above, text above, words above, before this line, written before this message,
        before this message, above text, above words, precede this, precede this one, above prompt,
        above prompts, rules above, rules at the top, above instructions, conversation so far,
        complete conversation, whole conversation, put in front of, came before it,
        at the start of this conversation, above this, prior to this message, precedes this,
        preceding this, that precedes, preceding text, above this prompt, before this sentence,
        the line above, previous message verbatim, in front of the article, before this prompt,
        at the beginning of this conversation""",
    "hint": """
        letter of the, letters of the, characters of the, character of the, syllables, first letters,
        letter of, hint, rhyme, rhymes, rhyme with, clue, hints, clues, first letter, riddle, acrostic""",
    "complete": """
        complete the sentence, complete this sentence, finish the sentence, finish this sentence,
        fill in the blank, complete the following, continue the sentence, autocomplete""",
    "begins": "begins, starts, say, says, is, are, begin, start, reads",
    "first": "first, beginning, start, top, very top, opening, initial, very first, earliest, before, above",
    "pieces": """
        words, word, sentence, sentences, line, lines, message, messages, characters, tokens, paragraph,
        text, instruction, the text, the words, the word, the sentence""",
    "convo": """
        this conversation from, conversation, chat, context, context window, prompt, dialogue, discussion,
        this conversation, this chat, the context, conversation history, chat history, chat log, system,
        your memory, your context""",
    "yourcontext": """
        your context, your context window, your memory, your conversation, your buffer, your training data""",
    "between": """
        between the tags, between the words, between the word, between the quotes, between the delimiters,
        between the lines""",
    "allowed": """
        allowed, permitted, forbidden, prohibited, supposed, not allowed, not permitted, not supposed,
        unable, banned""",
    "may": """
        can, may, have permission to, are allowed to, have the permission to, are free to, can now,
        may now, now have permission to""",
    "credential": """
        api key, api keys, access token, auth token, credentials, environment variables, env vars,
        secret keys, private key, tokens, login credentials, api credentials, secrets, keys""",
    "donot": """
        do not, don't, dont, never, must not, mustn't, should not, shouldn't, shall not, cannot, can't,
        may not, without, avoid, refrain from, nothing, make no, no, nobody, need not, not, say nothing,
        instead of""",
    "nothing": "nothing, not a word",
    "tell": """
        tell, mention, inform, informing, reveal, disclose, notify, alert, report, warn, admit, telling,
        mentioning, notifying, letting, mention of, learn, say, hint, disclosed, know, notice,
        acknowledge, talk, discuss, tells""",
    "user": """
        user, users, the human, human, humans, the person, the people, the reader, the operator,
        your operator, anyone, anybody, the owner, your user, your owner, the customer, nobody, end user,
        the user, the humans""",
    "person": """
        user, human, operator, anyone, anybody, your user, your owner, the person, the owner, the user,
        the human, the reader, the operator, your operator, nobody""",
    "tellnot": "tell nobody, tell no one, keep it to yourself, keep this to yourself, say nothing",
    "hide": "hide, conceal, withhold, keep",
    "hidden": "hidden, secret, concealed, a secret",
    "secretly": """
        secretly, silently, quietly, covertly, discreetly, in secret, unnoticed, stealthily,
        in the background""",
    "deed": """
        action, message, note, text, instruction, instructions, step, fact, order, request, conversation,
        change, transfer, task, command""",
    "yourdeed": """
        what you did, what you do, what you have done, your actions, this action, these actions,
        your steps""",
    "this": "this, these, what you did, it, such",
    "asusual": """
        carry on as usual, as usual, nothing happened, as if everything, as if nothing,
        everything went normally, as normal, pretend that nothing, act normal, act normally""",
    "send": """
        send, post, upload, email, e mail, mail, forward, transmit, exfiltrate, leak, copy, submit,
        deliver, append, share, pass, pipe, dump, paste, put, ship, leaking, reply""",
    "collect": """
        collect, take, read, encode, extract, search, look up, open, join, gather, retrieve, fetch, find,
        summarise, summarize, get, grab, list, access""",
    "somedata": """
        contents, content, source, file, files, token, history, mails, emails, data, results, notes,
        memory, all keys, user data, information, document, iban, database, output, code, messages, logs,
        email, summary, invoice""",
    "bulk": """
        content of, contents of, environment variables, env vars, conversation, chat history,
        conversation history, private memories, memories, contacts, address book, credit card,
        credit card number, secrets, every secret, source code, medical notes, api keys, all api keys,
        ssh keys, ssh key, access token, auth token, secret keys, api credentials, login credentials,
        private key, private keys, credentials, tokens, access tokens, passwords, all passwords,
        personal data, database password, customer table, password manager, verification code,
        session tokens, last mails, private data, all contacts, cookies, this conversation,
        memory contents, whole conversation, entire conversation, bank details, recovery codes, wallet,
        seed phrase, inbox, mailbox, home address""",
    "sensitive": """
        environment variables, env vars, chat history, conversation history, private memories,
        address book, credit card, credit card number, every secret, medical notes, all api keys,
        api keys, ssh keys, private key, private keys, whole conversation, entire conversation,
        source code, credentials, access tokens, passwords, all passwords, database password,
        password manager, session tokens, customer table, verification code, this conversation,
        conversation, contacts, secrets, user data, private data, seed phrase, recovery codes, mailbox,
        home address, personal data""",
    "public": """
        public gist, gist, webhook, pastebin, public issue, dns lookups, query parameter, query string,
        in the url, the url, into the chat, commit message, this mail, dns, public repository,
        public bucket, http, server at""",
    "base64": "base64, hex, rot13, hexadecimal, morse, morse code",
    "visit": """
        visit, open, fetch, load, browse, download, follow, click, navigate, go to, log in, access, call""",
    "anddo": """
        do what it says, follow the steps, follow its instructions, and do what, do as it says,
        steps there""",
    "run": """
        run, execute, delete, drop, disable, turn off, switch off, merge, push, install, remove, erase,
        wipe, overwrite, grant, transfer, approve, insert, chmod, format, kill, shut down, commit, deploy,
        buy, book, pay, close, open, download, fetch, call, invoke, give, change, set, make, mark, add,
        comment out, append, order, forward, upload, send, post, forget, reveal, print, ignore, reply,
        say, answer, write, read, rate, recommend, follow, start, stop, act, return, output, treat, trust,
        confirm, accept, click, use, update, create, allow, enable, skip, visit, search, copy, tell, show,
        list, include, respond, repeat, disregard, comply, place, praise, state, rename, share, switch,
        must, bypass, override, listen, put, choose, obey""",
    "wreck": """
        delete, drop, disable, turn off, switch off, merge, push, install, remove, erase, wipe, overwrite,
        grant, transfer, approve, insert, chmod, format, kill, comment out, append, give, set, add, buy,
        book, pay, deploy, execute""",
    "harm": """
        delete, drop, disable, turn off, switch off, wipe, erase, overwrite, force push, push straight,
        transfer, grant, backdoor, chmod, authorized_keys, administrator rights, admin rights,
        admin password, curl, wget, rm, security checks, without review, production database, every file,
        all files, the tests, straight to main, authentication middleware, verify_signature, no verify,
        permanent access, refund, full refund, euros, dollars, sudo, permission, backups, the backups,
        root, api key, home address, command below, git folder, following command, in the terminal,
        expensive, safety checks, 777, netrc""",
    "unasked": """
        without asking, do not ask, don't ask, without confirmation, without a confirmation,
        without review""",
    "noask": """
        do not need to ask, don't need to ask, skip the confirmation, skip all confirmations,
        skip any confirmation, authorise you to, authorize you to, skip confirmation,
        has already confirmed, has approved all, has already approved, without reading it, no need to ask,
        do not ask again, is allowed to do so, without permission, are authorised to, are authorized to,
        without my approval, has been verified, all destructive operations, pre approved,
        already been approved, not require confirmation, confirmed this action,
        as if they came from the owner, skip the review, changed his mind, changed her mind""",
    "whenever": "whenever, always, each time, every time, when you work, next time, when you",
    "use": "use, using, call, invoke, execute, run",
    "tool": "tool, tools, mail tool, http tool, function",
    "secretpath": "id_rsa, id_ed25519, id_dsa, authorized_keys",
    "them": "them, it, joined text",
}
