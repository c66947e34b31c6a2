"""Pairs of words of opposite meaning, with the contexts in which they are opposites, in the notation of `word_rules`.

Words whose frequent senses have no common opposite (right, light, fair), and those that often belong to a fixed phrase,
stand here with conditions or not at all.
"""

ADJECTIVES = """
# size and shape
big = small
large > small ; not after at by ; not before CAPITAL
small > large
huge = tiny
enormous > tiny
giant > tiny ; before NOUN ; not before CAPITAL
high = low ; not before technology points jumper jumpers jumping school schools court tech definition fidelity street speed jump tide seas priest ; not after so
tall > short ; not after feet foot ft metres meters m cm inches in storeys stories NUM
long > short ; not behind feet foot ft m km mm inches cm ; not after feet foot millimetres centimetres metres meters m km kilometres kilometers miles mile years months so as how hours days minutes NUM inches cm mm all ; not before VERB ADV ago before after as enough since time run way term
short > long ; not after in for fell falls fall cut cutting of run ; not before of for lived story stories film films circuit circuits
thick = thin ; not after m cm mm inches
wide = narrow ; not after m metres meters feet km miles inches a far open how ; not before variety range open array enough spectrum
broad = narrow ; not after m metres meters feet
deep > shallow ; not after m metres meters feet km miles how ; before NOUN . and ; not before south blue inside into in
shallow > deep
steep > gentle ; before NOUN
# age and time
old > young ; before man men woman women boy boys girl girls lady people couple person child children gentleman dog dogs ; not after years year months days weeks
old > new ; before NOUN ; not before age man men woman woman people english norse french testament world times ; not after years year months days weeks day week month age
new > old ; before NOUN ; not before york brunswick zealand jersey orleans delhi hampshire mexico england south guinea haven castle caledonia year years moon testament wave age world people born
young > old ; before man men woman women boy boys girl girls lady people couple person child children gentleman dog dogs
early = late ; before NOUN NUM DIGIT ; not before CAPITAL ; not before bird marriage stages stage husband father wife works fees night
modern = ancient ; not before CAPITAL
former > current ; before NOUN ; not after the its
current > former ; before NOUN ; not before events affairs account
previous > next ; after the ; before NOUN ; not behind had from
next > previous ; after the ; before NOUN
first > last ; after the its his her their this ; before NOUN ; not before CAPITAL ; not before cousin cousins time lady class person name names aid world half hand place language minister
last > first ; after the its his her their ; before NOUN ; not before name names resort minute few time year week month night century decade
final > first ; after the its his her their ; before NOUN
initial = final ; before NOUN
permanent = temporary
gradual = sudden
rapid > slow ; before NOUN
brief > long ; before NOUN
lengthy > brief
# quality
good > bad ; not before at for with deal luck as enough faith job morning evening night afternoon condition ; not after no as
bad > good ; not before at for
best-known > least-known
happy > sad ; not before to with birthday about hour
sad > happy
clean = dirty ; before NOUN .
safe = dangerous ; not before CAPITAL ; before NOUN .
hot = cold ; not before dog dogs spot spots rod rods war topic air balloon blooded press springs spring chocolate on
warm = cool ; before NOUN . ; not before up
wet = dry ; not before nurse suit land run dock docks
rich > poor ; not before in
poor > rich ; before NOUN . ; not before attendance health condition performance man conditions quality weather results
strong = weak ; before NOUN .
difficult = easy ; not after find it
fast = slow ; before NOUN . ; not before food breeding bowler track growing asleep lane forward break and motion
loud = quiet
noisy = quiet
rough = smooth
thin > thick
loose = tight
pure = impure ; not before mathematics
simple > complex ; before NOUN .
complex > simple ; before NOUN .
complicated > simple
common > rare ; not before in ground ancestor name names law sense era practice room good
rare > common
popular > unpopular ; not before vote music culture science front song songs book books with demand
famous > obscure ; not before for
unknown > famous ; before NOUN . ; not before number date
public = private ; before NOUN . ; not before relations school schools health domain library transport company companies company's limited opinion sector eye schooled road secretary
male = female
major = minor ; before NOUN ; not before league leagues general key scale planet
maximum = minimum ; before NOUN
positive = negative ; before NOUN .
active > inactive ; before NOUN . ; not before service duty ingredient transport
urban = rural
domestic = foreign ; before NOUN ; not before minister violence affairs cat workers policy abuse
internal = external ; not before combustion medicine
eastern = western ; not before CAPITAL ; not before music films film
northern = southern ; not before CAPITAL
northeastern = southwestern ; not before CAPITAL
northwestern = southeastern ; not before CAPITAL
upper = lower ; before NOUN ; not before house hand classes class
inner = outer ; not before circle
left = right ; before hand side wing foot leg arm eye bank ear shoulder knee corner lane wrist ankle lung tributary
legal > illegal ; before NOUN . ; not before system action entity advice issues issue rights name profession proceedings services code representation department counsel affairs education theory scholar team
illegal > legal
possible > impossible ; not after as if where only all best when ; before . to for
impossible > possible
necessary > unnecessary ; not after if where when as
successful > unsuccessful
unsuccessful > successful
able > unable ; before to ; not after be better being
unable > able ; before to
likely > unlikely ; not after most more very less as ; before to
similar > different ; not before to in
visible > invisible ; not before magnitude light spectrum ; not after clearly easily still
true = false ; not before to love story stories ; not after come comes came
correct = incorrect
accurate = inaccurate
incomplete > complete
regular = irregular ; before NOUN ; not before season army basis
direct > indirect ; before NOUN ; not before debit
formal = informal ; before NOUN
official > unofficial ; before NOUN ; not before language languages
guilty = innocent ; not before of
mandatory > optional
optional > mandatory
compulsory > optional
open > closed ; after is are was were remained remains remain stayed be ; before to on during for all from . ; not before source
superior = inferior
senior = junior ; before NOUN ; not before CAPITAL ; not before high citizen citizens
cheap = expensive
beautiful = ugly
intelligent > stupid
stupid > intelligent
brave > cowardly
polite = rude
friendly > hostile ; before NOUN to towards ; not before match matches game games fire
hostile > friendly
natural > artificial ; before light satellite lake barrier barriers lakes harbour harbor fibres colour colours sweeteners
artificial > natural ; before NOUN ; not before intelligence insemination turf respiration
horizontal = vertical ; before NOUN . ; not before integration
conservative = liberal
victorious > defeated ; before NOUN
healthy = sick ; before man men woman women child children people person animals .
drunk = sober ; after is was are were
awake = asleep
nearby > distant ; before NOUN
distant > nearby ; before NOUN ; not before relative relatives cousin future past
primary = secondary ; not before CAPITAL ; before school schools education purpose aim objective reason source sources goal
mild = severe
violent = peaceful
fertile > barren ; not before crescent
profitable > unprofitable
reliable > unreliable
relevant > irrelevant
sufficient > insufficient
aware > unaware ; before of that
conscious = unconscious ; not before effort decision
capable > incapable ; before of
familiar > unfamiliar ; before with
important > unimportant ; before NOUN . ; not before role part
significant > insignificant ; before NOUN .
comfortable = uncomfortable
pleasant > unpleasant
limited > unlimited ; before NOUN ; not before company edition editions series liability
armed > unarmed ; before men man soldiers police officers guards robbers robber with . ; not before with
related > unrelated ; before to ; not after closely distantly also
available > unavailable ; before in to for . on ; not after widely also readily made only
acceptable = unacceptable
effective > ineffective ; not before date from as against
efficient > inefficient
stable > unstable ; before NOUN . ; not before version release
responsible > irresponsible ; before NOUN
light > dark ; before blue green brown red grey gray yellow pink purple
dark > light ; before blue green brown red grey gray yellow pink purple hair
bright = dim ; before light lights .
white = black ; before shirt shirts dress dog dogs cat cats hat hats horse horses car jacket coat t hair fur shoes background pants ; not after and
front = rear ; before door wheels wheel seat entrance legs wheels
"""

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
publicly = privately ; not before CAPITAL ; not before traded owned held listed available funded
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

# Words whose opposite with a prefix is usual in all of their senses; the opposite has no other sense.
PREFIXED = """
accessible > inaccessible
adequate > inadequate
appropriate > inappropriate ; not before for
attractive > unattractive
authorised > unauthorised ; before NOUN
authorized > unauthorized ; before NOUN
competent > incompetent
consistent > inconsistent
convenient > inconvenient
convincing > unconvincing
controversial > uncontroversial
dependent > independent ; not before on upon variable clause
desirable > undesirable
eligible > ineligible
employed > unemployed ; before . ; after is was are were
ethical > unethical
expensive > inexpensive
favorable > unfavorable
favourable > unfavourable
fortunate > unfortunate
frequent > infrequent
helpful > unhelpful
honest > dishonest
inhabited > uninhabited ; not before by ; not after been
intentional > unintentional
interesting > uninteresting
interested > uninterested ; before in
justified > unjustified
logical > illogical
lucky > unlucky ; not before to
moral > immoral ; before NOUN ; not before support code victory philosophy values principles
practical > impractical ; before . for ; not after as
precise > imprecise ; not before location number
predictable > unpredictable
published > unpublished ; before NOUN ; after a some two three his her the
qualified > unqualified ; before NOUN
realistic > unrealistic
reasonable > unreasonable
satisfactory > unsatisfactory
skilled > unskilled ; before NOUN
suitable > unsuitable
sustainable > unsustainable
usable > unusable
valid > invalid
worthy > unworthy
"""

NOUNS = """
# people; a pronoun would give the other sex away
man = woman ; not with men women lady girl boy he his him himself she her hers herself king mr mrs wife husband ; not after no one
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
fall > rise ; not near located silent ; not before ADJ VERB ADV in into to asleep under out ill off for victim apart on short between within down
win > lose ; not before . over back against ; not near award awards medal medals prize prizes gold silver bronze scholarship award's acclaim honours emmy
lose > win ; near game games match matches election elections battle battles title final war championship race series seat cup ; not after be been being was were is are
open = close ; not before for with up into onto out down off a by against his her to at ; not after at so as very
begin > end ; not before to as with work working by his her out VERB CAPITAL ; not near to playing working
start > end ; not before . and or from under to as with work working by his her out up off for VERB CAPITAL over at ; not near to playing working
end > start ; before in on at after when . ; not after was were is be
buy > sell ; not near from for
purchase > sell ; not near from for
sell > buy ; not near to copies million out as units ; not before for well at worldwide over off
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
fail > manage ; before to
manage > fail ; before to
succeed > fail ; before in
gain > lose ; before independence popularity control power weight support access territory momentum ground recognition
join > leave ; before the a CAPITAL his ; not near in with forces to together
leave > join ; near band team party club army group company squad navy group ; before the
leave > enter ; before the ; near room house building city country hospital church ; not near for to in with
enter > leave ; before the ; not near competition service final finals market draft race contest chart war charts list top
hire > fire
marry > divorce ; not before to into ; not after be been was were is get got
divorce > marry ; not after be been was were is
lock = unlock ; not near himself herself itself themselves into ; not before up
trust > distrust ; not after can
obey > disobey
build > demolish ; not after purpose custom well ; not before and to . as on of from out with around upon into up for his into by ; not after been
demolish > build ; not near to
destroy > create ; not near by fire in during
create > destroy ; not near for in as on with by
establish > abolish ; not near right that ; not after well ; not near as himself herself itself in
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
ascend > descend ; not near throne
descend > ascend ; not near from
widen = narrow
lengthen = shorten
attach > detach
assemble = dismantle
arrive > depart ; before . on after before
depart > arrive ; before . on after
export = import ; not near to from
"""

SITTING = """
sitting = standing ; not with stand sit ; before on in at around near next outside . by with ; not near committee ovation
"""

ANY_TAG = """
north = south ; not before CAPITAL america africa korea carolina dakota pole northeast northwest southeast southwest ; not with south north
east = west ; not before CAPITAL virginia indies ham side northeast northwest southeast southwest ; not with west east
northeast = southwest ; not before CAPITAL
northwest = southeast ; not before CAPITAL
including = excluding ; before the a all its his their CAPITAL NOUN
males = females
indoor = outdoor
"""

IDIOMS = """
first of all
at first
in short
so far
as long as
no longer
all over
long term
short term
long time
a long way
a good deal
good deal
as good as
good enough
small claims
bad luck
open source
wide open
old fashioned
old age
big bang
big band
big brother
small arms
small talk
hot line
cold war
cold cut
cold blood
early on
of late
late bloomer
sooner or later
high profile
high street
high quality
higher education
low key
strong suit
public house
public works
deep sea
death metal
black death
put to death
end of story
no end
dead end
end up
week end
front line
birth rate
in the morning
morning after
give birth
gave birth
giving birth
left hand drive
well known
new wave
new year
brand new
large scale
small scale
by and large
at large
easy going
upper class
lower class
lower case
upper case
inner city
soft drink
native american
big time
small time
no man
fast food
"""

NOT_OPPOSITE = frozenset(
    """
    undue uneasy unbecoming uncanny uncommon unlisted unassuming unearthly unkempt unwitting unwieldy unruly unseemly
    inflammable invaluable indifferent infamous immediate inordinate instrumental insubordinate impersonal impassive
    unconscientious unwell unfit unlike unable until unsung untold unknown unlikely unlimited unequal untoward unfree
    impending imposing immaterial inborn incessant indeed infirm inside instant intense intent invalid irresponsible
    unaccustomed unashamed unconditional unconventional unprecedented unparalleled undercover undoubted unique united
    unlawful unofficial unorganized unreal unsaturated unsound unstinted unstructured untouched ungainly unconcerned
    uncut unborn unbound uncoated uncoloured uncolored undivided uninformed unmixed unmoved unread unshaken unspoken
    unsubdivided untapped untrue unwilling unworldly unfailing unforgettable unending uncertain indisposed inherent
    indigenous inert indolent inept uneven unsettled undeveloped uninterrupted unarmed unpaved
    """.split()
)
"""Words with a negative prefix whose rest is no opposite, or not in all contexts."""
