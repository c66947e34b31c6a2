"""Quantifiers and comparatives replaced by their opposites: more and less, all and some.

The rules stand below, in the notation of `word_rules`.
"""

from __future__ import annotations

from holdfast.edits.tagging import Tagger
from holdfast.edits.word_rules import RuleEdit, read_rules

# Words that need no part of speech, or whose context shows it.
_RULES = """
all_of_the > none_of_the ; not after not
all_of > none_of ; before his her its their these those them us which ; not after not
all_the > some_of_the ; before PLURAL ADJ ; not after not of at with for in way time nearly almost virtually on
all > some ; before PLURAL ADJ people ; not before kinds sorts times other ages means intents odds sides parts
    costs of right ; not after is are was were ; not after of at above not nearly almost virtually after and with in
    they we you us them it ;
    not after NOUN made
some_of > all_of ; before the his her its their these those them us which ; not after at
some > all ; before PLURAL people ; not before times sort ways kinds years days months weeks hours minutes miles ;
    not after with made make has have had do
some > all ; before ADJ ; near PLURAL ; not near way time kind form sort degree degrees respect measure success
    other few ; after . and that
none_of > all_of ; before the his her its their these those them us which
every > no ; before NOUN ; not before year month week day time night morning summer season hour minute weekend
    evening sunday monday tuesday wednesday thursday friday saturday winter spring autumn decade bit weeks other
    second word ; not after not almost nearly and virtually of for
each > no ; before NOUN ; not before year month week day time night morning summer season hour minute weekend
    other way side end one ; not behind not after between for from of at in from with to and by on ; not with or ;
    near is has was can must will
each_of > none_of ; before the his her its their these those them us which ; not after for in to from between and with
everyone > nobody ; not after not and
everybody > nobody ; not after not and
everything > nothing ; not after not and ; not before from
nobody > everybody ; not before but else ; not with ever anything any yet
no_one > everyone ; not before but else NOUN ADJ NUM ; not with ever anything any yet
nothing > everything ; not before but to more less like short ; not after else almost for ; not with ever any yet
someone > nobody ; before is was has had can could
most_of > none_of ; before the his her its their these those them us which ; not after the for up
most > few ; before PLURAL people ; not after the its his her their at of our my s world and by up
many > few ; before PLURAL people of ; not before years times days months decades weeks hours centuries miles ;
    not after how great as good so too not
few > many ; before PLURAL people of ; not after a the last past next first very so these his her their its those
    every only as too precious relatively fairly ; not after final closing opening
a_few > many ; not after quite the last past next only just for in within every with not but ; before PLURAL of other
several > no ; before PLURAL ; not before years times days months decades weeks hours centuries miles others ;
    after VERB .
several > few ; before PLURAL ; after by and in on ; not before years times days months decades weeks hours minutes
a_lot_of > hardly_any ; not after quite not such ; not before the my his her its our their your these those this
lots_of > hardly_any ; not before the my his her its our their your these those this ; not after not ; not after and
too_much = too_little
too_many = too_few
much_of > little_of ; before the his her its their this ; not after so as how too very
thousands_of > dozens_of ; not after hundreds of tens ; not before thousands hundreds
hundreds_of > thousands_of ; not after many ; not before thousands hundreds
dozens_of > hundreds_of
always > never ; not after . not almost nearly ; not before so
never > always ; before been be ADJ had has ; not before before again
sometimes > never ; not after . and but ; not before ADV
more_than > fewer_than ; before NUM DIGIT ; not after no little much any not for in ; not near years percent per
    miles km year kilometres kilometers feet metres meters pounds dollars million billion hours minutes days
    months weeks mm cm of acres ; not with less fewer
more_than > less_than ; before NUM DIGIT . ; not after no little much any not nothing ; not with less fewer
more_than > less_than ; before a half ; near year decade century million third quarter hour week month mile
    thousand day ; not after no little much any not ; not with less fewer
less_than > more_than ; before NUM DIGIT a half one . ; not after no much nothing ; not with more
fewer_than > more_than ; not after no
at_least > at_most ; before NUM DIGIT a one two three
at_most > at_least
up_to > at_least ; before NUM DIGIT
over > under ; before NUM DIGIT ; not after victory win advantage lead wins all control defeat victories won took
    preference crossed taken taking spread VERB ; not after increase decrease
under > over ; before NUM DIGIT ; not after bound ; not before one
almost > more_than ; before NUM DIGIT
nearly > more_than ; before NUM DIGIT
almost_a > more_than_a ; before decade year month century week day hour mile
nearly_a > more_than_a ; before decade year month century week day hour mile
before > after ; not after ever never as long just not weeks and put or brought appeared appear came come year
    years day ; not before . long VERB court tax christ and or noon ; not near court judge ; not before NUM DIGIT
    several ; not near seconds minute minutes hour hours day days week weeks month months year years decade decades
    century centuries
before > after ; before VERB ; not after ever never as not and or just ; not before NUM DIGIT several ; not near
    seconds minute minutes hour hours day days week weeks month months year years decade decades century centuries
before > after ; after year years month months weeks week days day hours ; not before . VERB and or ; not before
    NUM DIGIT several ; not near seconds minute minutes hour hours day days week weeks month months year years
    decade decades century centuries
after > before ; not after named called looked look looks looking titled modelled modeled soon year day week
    time one ever immediately and or takes take took go went going ran run chasing sought morning night patterned
    styled who ; not before all . him himself herself us VERB another and or me that ; not near named ; not after
    only second next ; not behind name names named naming called ; not after field wave page step game hour house
    wave night year ; not before NUM DIGIT several ; not near seconds minute minutes hour hours day days week weeks
    month months year years decade decades century centuries
after > before ; before VERB ; not after named soon immediately even ever and or not ; not after only second
    next ; not behind name names named naming called ; not after field wave page step game hour house wave night
    year ; not before NUM DIGIT several ; not near seconds minute minutes hour hours day days week weeks month
    months year years decade decades century centuries
after > before ; after years months weeks days hours shortly ; not after only second next ; not behind name
    names named naming called ; not after field wave page step game hour house wave night year ; not before NUM
    DIGIT several ; not near seconds minute minutes hour hours day days week weeks month months year years decade
    decades century centuries
above > below ; before the a sea average ground DIGIT NUM his her its ; not after mentioned over high listed
    described ; not after up
below > above ; before the a sea average ground DIGIT NUM his her its ; not after listed described see down ; not
    after down
larger > smaller
largest > smallest
smaller > larger
smallest > largest
bigger > smaller
biggest > smallest
greater > smaller ; before NOUN ; not before good detail CAPITAL extent part
greatest > smallest ; before number extent
higher > lower ; not before education learning secondary order ; not before CAPITAL ; not after any
lower > higher ; near than
highest = lowest
longer = shorter ; not after no any ; not before any VERB
longest = shortest
taller > shorter
tallest > shortest
older > younger ; before brother sister son daughter man woman men women people child children boy girl than
    siblings brothers sisters couple lady person players ; not behind older younger
older > newer ; before NOUN ADJ ; not before student students pupil pupils member members player generation ; not
    behind older younger
younger > older ; before NOUN than ADJ ; not behind older younger
oldest > youngest ; before son daughter child brother sister player person member man woman of children sons
oldest > newest ; before NOUN ADJ VERB ; not before person player winner man woman recorded known profession
youngest > oldest
newest > oldest
newer > older
earlier > later ; before NOUN ; not before today yesterday this
later > earlier ; before works versions editions period periods career stages stage models version edition novels
    films albums books seasons episodes
earliest = latest ; before NOUN ADJ VERB
faster = slower
fastest = slowest
stronger = weaker
strongest = weakest
richer = poorer
richest = poorest
wider > narrower ; not before range audience world community public
widest > narrowest ; not before range
deeper > shallower ; before NOUN than
deepest > shallowest ; before NOUN
cheaper > more_expensive
cheapest > most_expensive ; after the
easier = harder ; not before . on and
easiest = hardest ; before NOUN ADJ to part
hotter = colder
hottest = coldest
warmer = cooler ; not after NOUN
warmest = coolest
heavier = lighter
heaviest = lightest
brighter > darker
safer > more_dangerous
better > worse ; not before known half understand understanding VERB ; not after had ; not after one go
worse > better ; not before yet ; not after make matters even
best > worst ; after the his her their its s ; before NOUN ADJ of way ; not before known seller sellers selling
    man friend friends interests interest practices efforts western
worst > best ; not before way ; after the his her their its s ; before NOUN ADJ of
more > less ; before ADJ ADV ; not after once no any some and the two three one many ; not before often than or . then
    dead injured wounded
more > fewer ; before PLURAL people ; not after once no any some and two three one many DIGIT NUM few several with
less > more ; before ADJ ADV ; not before than
most > least ; before ADJ ADV ; after the its his her their s ; not before of recent
least > most ; before ADJ ADV ; after the its his her their s
no > some ; before NOUN ; not before individual one longer doubt matter more less such idea other wonder way fault
    point CAPITAL single need time further good black white red blue green ; not after . or by in on at under to ;
    not with except any ever yet ; not ahead all
"""

_IDIOMS = """
year after year, day after day, week after week, time after time, one after another, night after night, above all,
after all, before long, day before yesterday, day after tomorrow, for the most part, at long last, ever before,
never before, all over, all right, more or less, no more, once more, some more, at all, first of all, all along,
all but, at best, at worst, as above, no man, no fewer, no less, nothing more, every other, each other, before christ,
for better or worse, all time, all day, all year, all night, all star, no longer, much more, never mind, never ending,
always on, see below, see above, most notably, most likely, every now, one of many, sooner or later, all together,
all in all, what is more, all about
"""


class Quantifier(RuleEdit):
    """A quantifier or comparative replaced by its opposite."""

    NAME = "quantifier"
    SIDE = "move"
    ABOUT = "a quantifier or comparative replaced by its opposite"


def quantifier_edits(tagger: Tagger) -> list[Quantifier]:
    """Return the edit `Quantifier`.

    Args:
        tagger: the part-of-speech tagger.
    """
    return [Quantifier(read_rules(_RULES), tagger, _IDIOMS.replace("\n", " ").strip().split(", "))]
