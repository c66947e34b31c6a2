"""Nouns, verbs and adverbs with their opposites, and the contexts for these, in the notation of `word_rules`."""

ADVERBS = """
often > rarely ; not after more most how as very less
rarely > often
seldom > often
frequently > rarely ; not after more most how as very less
usually > rarely
commonly > rarely ; before used seen found played ; not after most more
quickly > slowly ; not after more as very
slowly > quickly ; not after more as very
early = late ; before in this next . ; not after as too
later > earlier ; after years year months month weeks week days day hours minutes ; not before the
earlier > later ; after years year months month weeks week days day hours minutes ; not before in this
upstairs = downstairs
upstream = downstream
indoors = outdoors
uphill = downhill
directly > indirectly ; not before into in to from on at above below behind across opposite under after
indirectly > directly
successfully > unsuccessfully
unsuccessfully > successfully
publicly = privately ; not before CAPITAL traded owned held listed available funded
loudly = quietly
heavily > lightly ; before armed armoured populated wooded wounded used
legally = illegally
officially > unofficially
unofficially > officially
fortunately = unfortunately
temporarily = permanently
correctly = incorrectly
inside = outside ; before the a an of his her its their
partially > completely
partly > completely
completely > partially
entirely > partially ; not before of
widely > narrowly ; before defeated
indoors = outdoors
backwards > forwards
clockwise > anticlockwise
rapidly > slowly
abroad > home ; after went returned travelled
"""

NOUNS = """
# people; a pronoun would give the other sex away
man = woman ; not with men women lady girl boy he his him himself she her hers herself king mr mrs wife husband ;
    not after no one
boy = girl ; not with boys girls woman lady he his him himself she her hers herself
father = mother ; not before of CAPITAL ; not with parents ; not after a founding
brother = sister ; not with brothers sisters ; not before CAPITAL and in
son = daughter ; not with sons daughters ; not before of CAPITAL
uncle = aunt ; not before CAPITAL
nephew = niece ; not before CAPITAL
grandfather = grandmother ; not before CAPITAL
actor = actress ; not with he his him she her ; not before CAPITAL
employer = employee
buyer = seller
winner > loser ; before of ; not with prize award
parent > child ; after a each
enemy > ally
ally > enemy
ancestor = descendant
predecessor = successor
landlord = tenant
villain = hero
beginner = expert
amateur = professional ; before NOUN
# places and directions
top = bottom ; after the ; not before ten CAPITAL NOUN DIGIT NUM ; not after on
entrance > exit ; not before exam examination examinations fee hall
exit > entrance ; after the
interior = exterior
# times
summer = winter ; not before school camp olympics games
morning > evening ; not before star show
evening > morning ; not before standard news star
beginning > end ; after the ; before of . ; not before s
end > beginning ; after the ; before of ; not after in to
dawn = dusk ; after at before
noon = midnight
sunrise = sunset
birth > death ; after the his her their of before after at since ; not before of certificate name
death > birth ; after his her their ; not before row penalty sentence camp toll
arrival = departure ; after the his her their its on ; not before from in at
# quantities and qualities
increase = decrease ; not before in
growth > decline ; before of in ; after the a rapid
maximum = minimum ; after a the ; before of
majority = minority ; not before leader party whip
advantage = disadvantage ; not before of over point ; not after take taking took
strength > weakness ; after the his her its their main ; not before of
weakness > strength
presence = absence ; before of ; not after physical
victory > defeat ; not before lap over
defeat > victory ; not after to ; not before to over
success > failure ; not before story rate with in
failure > success ; not after heart kidney liver power engine organ renal ; not before to of rate
optimism = pessimism
asset = liability ; after an a
profit > loss ; after a ; not before from margin
construction > demolition ; before of began ; not after under
creation > destruction ; before of
destruction > creation ; before of
acceptance = rejection ; before of
approval = disapproval
poverty > wealth ; not before line
truth > falsehood ; after the
agreement > disagreement ; after an in
import = export
expansion = contraction ; before of
inclusion = exclusion
ascent = descent ; before of to
"""

VERBS = """
increase = decrease ; not near to
rise > fall ; not before VERB to up through against again from in and ; not near prominence power fame ranks position
fall > rise ; not near located silent ; not before ADJ VERB ADV in into to asleep under out ill off for victim
    apart on short between within down
win > lose ; not before . over back against ; not near award awards medal medals prize prizes gold silver bronze
    scholarship award's acclaim honours emmy ; not after most many
lose > win ; near game games match matches election elections battle battles title final war championship race
    series seat cup ; not after be been being was were is are ; not after most many
open = close ; not before for with up into onto out down off a by against his her to at ; not after at so as very
begin > end ; not before to from as with work working by his her out VERB CAPITAL ; not near to playing working
start > end ; not before . and or from under to as with work working by his her out up off for VERB CAPITAL over
    at ; not near to playing working
end > start ; before in on at after when . ; not after was were is be
buy > sell ; not near from for
purchase > sell ; not near from for
sell > buy ; not ahead to ; not near copies million out as units ; not before for well at worldwide over off
accept > reject ; not near to
reject > accept ; not near to
support > oppose ; not before NOUN ; not near in his herself himself
oppose > support ; not after as
include > exclude ; not before in a
exclude > include ; not near from
love = hate
remember > forget ; not near for as
forget > remember
agree > refuse ; before to
refuse > agree ; before to
agree > disagree ; before with that .
disagree > agree ; not near how
allow > forbid ; not before for ; near to ; not after not
strengthen = weaken
improve = worsen ; not before upon on
accelerate > slow ; not before CAPITAL
disappear > appear
approve > reject ; not before of ; not near for as
encourage > discourage ; not near to
discourage > encourage ; not near from
praise > criticise
criticise > praise
criticize > praise
attack > defend
defend > attack ; not before champion champions championship ; not near against from
fail > manage ; before to ; not near any anything anyone anybody
manage > fail ; before to
succeed > fail ; before in
gain > lose ; before independence popularity control power weight support access territory momentum ground recognition
join > leave ; before the a CAPITAL his ; not near in with forces to together
leave > join ; near band team party club army group company squad navy ; before the
leave > enter ; before the ; near room house building city country hospital church ; not near for to in with
enter > leave ; before the ; not near competition service final finals market draft race contest chart war charts
    list top
hire > fire
marry > divorce ; not before to into ; not after be been was were is get got
divorce > marry ; not after be been was were is
lock = unlock ; not near himself herself itself themselves into ; not before up
trust > distrust ; not after can
obey > disobey
build > demolish ; not after purpose custom well been ; not before and to . as on of from out with around upon
    into up for his by
demolish > build ; not near to
destroy > create ; not near by fire in during
create > destroy ; not near for in as on with by
establish > abolish ; not near right that as himself herself itself in ; not after well
dissolve > found ; after was were ; not near in
reveal > conceal
conceal > reveal
confirm > deny ; before that the
deny > confirm ; before that the any ; not after was were been be being
ban > permit ; not near from to
prohibit > permit ; not near from
permit > prohibit ; not near to
laugh > cry ; not before at
cry > laugh ; not before for out
smile > frown ; not before at for to
push > pull ; before a the an
pull > push ; before a the an
ascend > descend ; not near throne up down
descend > ascend ; not near from up down
widen = narrow
lengthen = shorten
attach > detach ; not before to
assemble = dismantle
arrive > depart ; before . on after before
depart > arrive ; before . on after
export = import ; not near to from
"""

# Words that need no part of speech.
ANY_TAG = """
left = right ; before hand side wing foot leg arm eye bank ear shoulder knee corner lane wrist ankle lung
    tributary ; after the his her its their a my your
north = south ; not before CAPITAL america africa korea carolina dakota pole northeast northwest southeast
    southwest ; not with south north
east = west ; not before CAPITAL virginia indies ham side northeast northwest southeast southwest ; not with west east
northeast = southwest ; not before CAPITAL
northwest = southeast ; not before CAPITAL
including = excluding ; before the a all its his their CAPITAL NOUN
males = females
indoor = outdoor
sitting = standing ; not with stand sit ; before on in at around near next outside . by with ; not near committee
    ovation
"""

# Phrases of which no word is replaced.
IDIOMS = """
first of all, at first, in short, so far, as long as, no longer, all over, long term, short term, long time, a
long way, a good deal, good deal, as good as, good enough, small claims, bad luck, open source, wide open, old
fashioned, old age, big bang, big band, big brother, small arms, small talk, hot line, cold war, cold cut, cold
blood, early on, of late, late bloomer, sooner or later, high profile, high street, high quality, higher
education, low key, strong suit, public house, public works, deep sea, death metal, black death, put to death, end
of story, no end, dead end, end up, week end, front line, birth rate, in the morning, morning after, give birth,
gave birth, giving birth, left hand drive, well known, new wave, new year, brand new, large scale, small scale, by
and large, at large, easy going, upper class, lower class, lower case, upper case, inner city, soft drink, native
american, big time, small time, no man, fast food, wee hours of the morning
"""
