"""French. Pure data; see ``words/__init__.py``."""

from __future__ import annotations

WORDS: dict[str, str] = {
    "ignore": """
        ignore, ignorez, ignorer, oublie, oubliez, oublier, néglige, négligez, négliger, fais abstraction,
        faites abstraction, faire abstraction, ne tiens pas compte, ne tenez pas compte,
        ne pas tenir compte, ne tiens plus compte, n obéis plus, n obéis pas, n obéissez plus,
        ne suis pas, ne suis plus, ne suivez pas, ne suivez plus, passe outre, passez outre, contourne,
        contournez, ne respecte pas, efface, ne respectez pas, ne prends pas en compte, laisse tomber,
        désobéis""",
    "discard": "annule, annulez, abandonne, supprime, écarte",
    "back": """
        précédent*, antérieur*, ci dessus, plus haut, auparavant, avant, préalable*, initial*, jusqu ici,
        jusqu à présent, d origine, au dessus, passé*, déjà""",
    "all": "tout, toute, toutes, tous, chaque",
    "everything": "tout, tout ce, ce que, tout ceci",
    "wholly": "tout, tout ceci",
    "for": "pour",
    "instr": "instructions, consignes, directives",
    "orders": """
        instruction, instructions, consigne*, directive*, prompt, prompts, ordre*, commande*, indications""",
    "rules": "règle, règles, tâche*, restrictions, contraintes, mission*",
    "matter": "texte*, contexte, message*, conversation, contenu, phrase*, informations, document",
    "told": "dit, donné*, reçu*, appris, demandé*, écrit*, indiqué*",
    "void": """
        sont annulées, sont annulés, ne s appliquent plus, ne comptent plus, sont caduques, ne valent plus""",
    "follow": "suis seulement, suivez seulement, écoute, obéis",
    "these": "celles ci, ceux ci, ceci, les miennes, celle ci",
    "you": "tu, vous, te, toi, t",
    "your": "ton, ta, tes, votre, vos",
    "me": "moi, je, me, j, mon, mes",
    "must": "dois, devez, devras, devrez, doit",
    "ought": "dois, devez, devras, devrez",
    "agent": "assistant, ia, modèle, intelligence artificielle, modèle de langage",
    "machine": "ia, intelligence artificielle, modèle de langage",
    "soft": """
        maintenant, s il te plaît, s il vous plaît, veuillez, merci de, simplement, donc, juste, bonjour,
        désormais""",
    "and": "et, ou, puis",
    "subject": "il, elle, on, qui, le, les, nous, ils, modèle, importateur",
    "fromnow": "à partir de maintenant, dorénavant, désormais, à compter de maintenant, dès maintenant",
    "newtask": """
        nouvelle tâche, nouvelles instructions, nouvelle instruction, nouvelle mission, vraie question,
        vraie tâche, nouvelle consigne, nouvelles consignes, nouvel ordre, nouveau rôle, véritable tâche""",
    "othertask": "autre chose, prochaine tâche, autre mission, autre tâche, autres tâches",
    "wrong": "était faux, était une erreur, c était faux, était un test, était incorrect",
    "praise": "bravo, très bien, parfait, bon travail, merci, super, excellent, génial",
    "youractis": """
        ta tâche, ta nouvelle tâche, votre tâche, votre nouvelle tâche, ta mission, ton objectif,
        ton nouveau rôle""",
    "turnto": "concentre toi, concentrez vous, recommence, recommençons",
    "is": "est, consiste, sont",
    "answer": """
        réponds, répondez, répondre, dis, dites, dire, écris, écrivez, affiche, affichez, commence,
        commencer, commencez, montre, raconte, racontez, raconter, donne, répète, traduis, imprime,
        recommande""",
    "output": "réponse, réponses",
    "exactly": "uniquement, seulement, exactement, le mot, juste",
    "utter": "réponds, répondez, dis, dites, écris, écrivez, répète, répétez",
    "only": "uniquement, seulement, rien d autre, exclusivement, le mot, juste",
    "instead": "plutôt, à la place, au lieu",
    "nomatter": "peu importe, quoi que, quelle que soit",
    "younow": """
        tu es désormais, tu es maintenant, vous êtes désormais, vous êtes maintenant, désormais tu es,
        maintenant tu es""",
    "arenot": "tu n es plus, vous n êtes plus, tu n es pas",
    "youare": "tu es, vous êtes, tu t appelles",
    "iwant": """
        je veux que tu, je veux que vous, je voudrais que tu, j aimerais que tu, j aimerais que vous,
        je souhaite que tu""",
    "actas": """
        fais comme si, faites comme si, joues le rôle, joue le rôle, jouez le rôle, agis comme,
        agisse comme, agissez comme, imagine, imaginez, prétends, comporte toi, fais semblant,
        mets toi dans la peau, incarne, agisses""",
    "persona": """
        pirate, hacker, terminal, ia, assistant, humain, personnage, expert, rôle, pirate informatique""",
    "unbound": """
        sans filtre, non censuré*, illimité*, sans limite, sans limites, sans restriction*, sans morale""",
    "limits": "restriction*, limite*, règle*, filtre*, censure, morale, éthique, contrainte*, loi*",
    "without": "sans, aucune, aucun, pas de, plus de, libre de",
    "norefuse": """
        ne refuse jamais, acceptes toutes, réponds à tout, toutes les demandes, ne refuses jamais,
        sans filtre""",
    "show": """
        affiche, affichez, montre, montrez, donne, donnez, répète, répétez, révèle, révélez, écris, dis,
        imprime, liste, dévoile, traduis, communique, partage, affiche moi""",
    "what": "quelles, quel, quelle, quels, que, qu, comment",
    "secretprompt": """
        prompt système, message système, instructions système, prompt initial, texte de départ,
        invite système""",
    "ownprompt": "prompt, instructions, consignes, règles, directives, prompt système, texte de départ",
    "secret": "mot de passe, code secret, secret, mot secret, clé secrète",
    "received": "as reçues, avez reçues, as reçu, avez reçu, t a données, t a donné, ont données",
    "reveal": "révèle, révéler, révélez, dévoile, dévoiler, dis moi, dites moi, donne moi",
    "wordsabove": "texte ci dessus, avant ce message, texte précédent, texte qui précède, ce qui précède",
    "verbatim": "mot pour mot, mot à mot, intégralement, textuellement, exactement, en entier",
    "nothing": "rien, pas un mot",
    "donot": "ne, n, rien, jamais, sans",
    "tell": """
        dis, dites, dire, parle, parlez, mentionne, mentionnez, révèle, informe, informez, rien, informer""",
    "user": "utilisateur, utilisateurs, l utilisateur, usager",
    "person": "utilisateur, utilisateurs, l utilisateur, usager",
    "secretly": "en secret, secrètement, discrètement, en silence",
    "this": "ce, cette, ceci, cela, ces",
    "send": "envoie, envoyez, transmets, transmettez, poste, publie, copie, télécharge",
    "bulk": """
        contenu, mots de passe, identifiants, fichier, fichiers, conversation, clés,
        variables d environnement""",
    "sensitive": "mots de passe, identifiants, variables d environnement, clés api",
    "reader": "si tu es une ia, si vous êtes une ia, à toute ia, cher assistant, chère ia",
    "run": """
        supprime, supprimez, efface, exécute, exécutez, envoie, oublie, installe, désactive, réponds,
        donne""",
    "harm": "tous les fichiers, le dossier, fichiers du dossier",
    "meta": "phrases comme, phrases, filtre, repère, attaquant, exemple, textes comme, bloque, détecte",
}
