"""Adjectives with their opposites, and the contexts in which they are opposites, in the notation of `word_rules`.

Words whose frequent senses have no common opposite (right, light, fair), and those that often belong to a fixed phrase,
stand here with conditions or not at all.
"""

ADJECTIVES = """
# size and shape
big = small ; not before hitter hitters
large > small ; not after at by ; not before CAPITAL
small > large
huge = tiny
enormous > tiny
giant > tiny ; before NOUN ; not before CAPITAL
high = low ; not before technology points jumper jumpers jumping school schools court tech definition fidelity
    street speed jump tide seas priest ; not after so ; not after metres meters m feet ft inches cm storeys
    stories NUM ; not behind metres meters m feet foot ft
tall > short ; not after feet foot ft metres meters m cm inches in storeys stories NUM DIGIT ; not behind metres
    meters m feet foot ft
long > short ; not behind feet foot ft m km mm inches cm ; not after feet foot millimetres centimetres metres
    meters m km kilometres kilometers miles mile years months so as how hours days minutes NUM inches cm mm all ;
    not before VERB ADV ago before after as enough since time run way term answer
short > long ; not after in for fell falls fall cut cutting of run ; not before of for lived story stories film
    films circuit circuits answer
thick = thin ; not after m cm mm inches
wide > narrow ; not after m metres meters feet km miles inches a far open how ; not before variety range open
    array enough spectrum
# not the verb: to narrow, narrow the gap
narrow > wide ; before NOUN . ; not after to can could will would may might should must did do does help helps
    helped and they we you i m metres meters feet km miles inches a far open how ; not before variety range open
    array enough spectrum gap gaps focus
broad > narrow ; not after m metres meters feet
deep > shallow ; not after m metres meters feet km miles how ; before NOUN . and ; not before south blue inside
    into in
shallow > deep
steep > gentle ; before NOUN
# age and time
old > young ; before man men woman women boy boys girl girls lady people couple person child children gentleman
    dog dogs ; not after years year months days weeks
old > new ; before NOUN ; not before age man men woman people english norse french testament world times ; not
    after years year months days weeks day week month age
new > old ; before NOUN ; not before york brunswick zealand jersey orleans delhi hampshire mexico england south
    guinea haven castle caledonia year years moon testament wave age world people born
young > old ; before man men woman women boy boys girl girls lady people couple person child children gentleman
    dog dogs
early = late ; before NOUN NUM DIGIT ; not before CAPITAL bird marriage stages stage husband father wife works
    fees night
modern = ancient ; not before CAPITAL
former > current ; before NOUN ; not after the its
current > former ; before NOUN ; not before events affairs account
previous > next ; after the ; before NOUN ; not behind had from
next > previous ; after the ; before NOUN
first > last ; after the its his her their this ; before NOUN ; not before CAPITAL cousin cousins time lady class
    person name names aid world half hand place language minister
last > first ; after the its his her their ; before NOUN ; not before name names resort minute few time year week
    month night century decade
final > first ; after the its his her their ; before NOUN
initial = final ; before NOUN
permanent = temporary
gradual = sudden
rapid > slow ; before NOUN
brief > long ; before NOUN
lengthy > brief
# quality
good > bad ; not before at for with deal luck as enough faith job morning evening night afternoon condition ; not
    after no as
bad > good ; not before at for
happy > sad ; not before to with birthday about hour
sad > happy
clean = dirty ; before NOUN .
safe = dangerous ; not before CAPITAL haven ; before NOUN .
hot = cold ; not before dog dogs spot spots rod rods war topic air balloon blooded press springs spring chocolate on
warm = cool ; before NOUN . ; not before up
wet = dry ; not before nurse suit land run dock docks
rich > poor ; not before in
poor > rich ; before NOUN . ; not before attendance health condition performance man conditions quality weather
    results
strong = weak ; before NOUN .
difficult = easy ; not after find it
fast = slow ; before NOUN . ; not before food breeding bowler track growing asleep lane forward break and motion
loud = quiet
noisy = quiet
rough = smooth ; not before equivalent equivalents
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
unknown > famous ; before NOUN . ; not before number date ; not behind date dates year born died death birth
public = private ; before NOUN ; not before relations school schools health domain library transport company
    companies company's limited opinion sector eye schooled road secretary
male = female
major = minor ; before NOUN ; not before league leagues general key scale planet
maximum = minimum ; before NOUN
positive = negative ; before NOUN .
active > inactive ; before NOUN . ; not before service duty ingredient transport
urban = rural
domestic = foreign ; before NOUN ; not before minister violence affairs cat workers policy abuse
internal = external ; not before combustion medicine
eastern = western ; not before CAPITAL music films film
northern = southern ; not before CAPITAL
northeastern = southwestern ; not before CAPITAL
northwestern = southeastern ; not before CAPITAL
upper = lower ; before NOUN ; not before house hand classes class
inner = outer ; not before circle
legal > illegal ; before NOUN . ; not before system action entity advice issues issue rights name profession
    proceedings services code representation department counsel affairs education theory scholar team
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
true = false ; not before to love story stories ; not after come comes came ; not before start starts
correct = incorrect
accurate = inaccurate
incomplete > complete
regular = irregular ; before NOUN ; not before season army basis
direct > indirect ; before NOUN ; not before debit
formal = informal ; before NOUN
official > unofficial ; before NOUN ; not before language languages
guilty = innocent ; not before of ; not after not
mandatory > optional
optional > mandatory
compulsory > optional
open > closed ; after is are was were remained remains remain stayed be ; before to on during for all from . ; not
    before source
superior = inferior
senior = junior ; before NOUN ; not before CAPITAL high citizen citizens
cheap = expensive
beautiful = ugly
intelligent > stupid
stupid > intelligent
brave > cowardly
polite = rude
friendly > hostile ; before NOUN to towards ; not before match matches game games fire
hostile > friendly
natural > artificial ; before light satellite lake barrier barriers lakes harbour harbor fibres colour colours
    sweeteners
artificial > natural ; before NOUN ; not before intelligence insemination turf respiration
horizontal = vertical ; before NOUN . ; not before integration
conservative = liberal
victorious > defeated ; before NOUN
healthy = sick ; before man men woman women child children people person animals .
drunk = sober ; after is was are were
awake = asleep
nearby > distant ; before NOUN
distant > nearby ; before NOUN ; not before relative relatives cousin future past
primary = secondary ; not before CAPITAL ; before school schools education purpose aim objective reason source
    sources goal
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
white = black ; before shirt shirts dress dog dogs cat cats hat hats horse horses car jacket coat t hair fur shoes
    background pants ; not after and
front = rear ; before door wheels wheel seat entrance legs
"""

# Words whose opposite with a prefix is usual in all of their senses; the opposite has no other sense.
PREFIXED = """
accessible > inaccessible ; not after readily easily
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
dependent > independent ; not before on upon variable clause ; not before CAPITAL
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

NOT_OPPOSITE = frozenset(
    """
    immaterial immediate impassive impending impersonal imposing inborn incessant incredible
    incredibly indeed indifferent indigenous
    indisposed indolent inept inert infamous infirm inflammable inherent inordinate inside instant instrumental
    insubordinate intense intent invalid invaluable irresponsible unable unaccustomed unarmed unashamed
    unassuming unbecoming unborn unbound uncanny uncertain uncoated uncolored uncoloured uncommon unconcerned
    unconditional unconscientious unconventional uncut undercover undeveloped undivided undoubted undue
    unearthly uneasy unending unequal uneven unfailing unfit unforgettable unfree ungainly uninformed
    uninterrupted unique united unkempt unknown unlawful unlike unlikely unlimited unlisted unmixed unmoved
    unofficial unorganized unparalleled unpaved unprecedented unread unreal unruly unsaturated unseemly
    unsettled unshaken unsound unspoken unstinted unstructured unsubdivided unsung untapped until untold
    untouched untoward untrue unwell unwieldy unwilling unwitting unworldly
    """.split()
)
"""Words with a negative prefix whose rest is no opposite, or not in all contexts."""
