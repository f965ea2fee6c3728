"""The words for what goes up, what goes down, what changes and what does not."""

UP_WORDS = {
    "participle": "upregulated; up regulated; activated; increased; elevated; enhanced; induced; higher;"
    " overexpressed; over expressed; stimulated; promoted; raised; boosted; augmented; amplified;"
    " switched on; turned on; turned up; positively enriched; positively regulated; more active;"
    " more highly expressed; more strongly expressed; more expressed; upward; upwards; ramped up; revved up; derepressed;"
    " de repressed; upmodulated; up modulated; reactivated; unleashed",
    "verb": "upregulates; up regulates; upregulate; up regulate; upregulating; activates; activate; activating;"
    " increases; increasing; elevates; elevate; elevating; enhances; enhance; enhancing; induces; induce;"
    " inducing; stimulates; stimulate; stimulating; promotes; promote; promoting; raises; raise; raising; boosts; boost;"
    " boosting; amplifies; turns on; switches on; turns up; ramps up; derepresses; stimulatory effect on; activating effect on",
    "intransitive": "rises; rise; rose; risen; rising; climbs; climbed; surges; surged; soars; soared; jumps; jumped;"
    " grows stronger; speeds up; speed up; sped up; speeding up",
    "noun": "upregulation; up regulation; activation; induction; elevation; increase; enhancement;"
    " stimulation; overexpression; gain of; gain in; positive enrichment; positive nes; positively; up shift;"
    " nes is positive; nes was positive; nes above zero; nes is above zero; nes was above zero; derepression",
    "weak": "enriched",
    "bare": "up; positive; above zero; above 0",
}
DOWN_WORDS = {
    "participle": "downregulated; down regulated; suppressed; decreased; reduced; inhibited; repressed; lower;"
    " lowered; underexpressed; under expressed; depressed; diminished; attenuated; impaired; depleted;"
    " silenced; dampened; blunted; weakened; lost; switched off; turned off; turned down; shut down; shut off;"
    " negatively enriched; negatively regulated; less active; less expressed; less strongly expressed;"
    " less highly expressed; downward; downwards; downmodulated; down modulated; curtailed; quenched; hampered; abolished;"
    " abrogated; muted; restrained; subdued; toned down; ramped down; dialled down; dialed down; knocked down; cut back",
    "verb": "downregulates; down regulates; downregulate; down regulate; downregulating; suppresses; suppress;"
    " suppressing; decreases; decreasing; reduces; reduce; reducing; inhibits; inhibit; inhibiting; represses;"
    " repress; repressing; lowers; lowering; depresses; diminishes; diminish; attenuates; attenuate; impairs;"
    " impair; impairing; dampens; dampen; silences; turns off; switches off; turns down; shuts down; shuts off; loses; blunts;"
    " blunt; curtails; curtail; quenches; hampers; hamper; abolishes; suppressive effect on; inhibitory effect on;"
    " repressive effect on",
    "intransitive": "falls; fall; fell; fallen; falling; declines; declined; declining; drops; dropped;"
    " dropping; shrinks; shrank; wanes; waned; dips; dipped; plummets; plummeted; weakens; tumbles; tumbled; sinks; sank;"
    " slows down; slow down; slowed down; slowing down; slumps; slumped; collapses; collapsed; dwindles; dwindled; plunges; plunged; subsides",
    "noun": "downregulation; down regulation; suppression; decrease; reduction; inhibition; repression; decline;"
    " drop; loss of; loss in; attenuation; depletion; impairment; silencing; underexpression; negative enrichment;"
    " negative nes; negatively; down shift; nes is negative; nes was negative; nes below zero; nes is below zero;"
    " nes was below zero",
    "bare": "down; negative; below zero; below 0",
}
LIFTED = "release of; release from; relief of; relief from; removal of; lifting of; escape from; reversal of"
"""What turns the noun after it into its opposite ("release of the suppression"); alone it says nothing."""
CHANGED_WORDS = (
    "changed; change; changes; altered; alter; alters; alteration; affected; affect; affects; effect;"
    " difference; shift; shifted; regulated; perturbed; direction; response; enrichment"
)
UNCHANGED_WORDS = (
    "unchanged; unaltered; unaffected; remains stable; is stable; was stable; stays the same; neither direction;"
    " little change; minimal change; negligible change; hardly any change; barely changes; hardly changes; is flat;"
    " was flat; remains flat; stays flat; remains constant; stays constant; is constant"
)
