"""Names and nouns by kind: places, nationalities, given names, months, and classes of common nouns, for replacements.

The words of a kind can stand in for one another in a sentence: they take the same articles and prepositions.
"""

from __future__ import annotations

PLACES = {
    "country": """
    Afghanistan, Albania, Algeria, Angola, Argentina, Armenia, Australia, Austria, Azerbaijan, Bangladesh,
    Belarus, Belgium, Bolivia, Botswana, Brazil, Bulgaria, Cambodia, Cameroon, Canada, Chile, China, Colombia,
    Croatia, Cuba, Cyprus, Denmark, Ecuador, Egypt, England, Estonia, Ethiopia, Finland, France, Germany, Ghana,
    Greece, Guatemala, Hungary, Iceland, India, Indonesia, Iran, Iraq, Ireland, Israel, Italy, Jamaica, Japan,
    Kazakhstan, Kenya, Kuwait, Latvia, Lebanon, Libya, Lithuania, Malaysia, Malta, Mexico, Mongolia, Morocco,
    Mozambique, Namibia, Nepal, Nigeria, Norway, Pakistan, Panama, Paraguay, Peru, Poland, Portugal, Qatar,
    Romania, Russia, Scotland, Senegal, Serbia, Singapore, Slovakia, Slovenia, Somalia, Spain, Sudan, Sweden,
    Switzerland, Syria, Taiwan, Tanzania, Thailand, Tunisia, Turkey, Uganda, Ukraine, Uruguay, Venezuela,
    Vietnam, Wales, Yemen, Zambia, Zimbabwe
    """,
    "city": """
    Amsterdam, Athens, Atlanta, Baghdad, Baltimore, Bangkok, Barcelona, Beijing, Belfast, Belgrade, Berlin,
    Birmingham, Boston, Bristol, Brussels, Bucharest, Budapest, Cairo, Calcutta, Chicago, Cleveland, Cologne,
    Copenhagen, Dallas, Delhi, Denver, Detroit, Dublin, Edinburgh, Florence, Frankfurt, Geneva, Glasgow,
    Hamburg, Helsinki, Houston, Istanbul, Jakarta, Jerusalem, Karachi, Leeds, Lisbon, Liverpool, London, Los
    Angeles, Madrid, Manchester, Manila, Melbourne, Miami, Milan, Minneapolis, Montreal, Moscow, Mumbai, Munich,
    Nairobi, Naples, New York, Oslo, Paris, Philadelphia, Pittsburgh, Prague, Rome, San Francisco, Seattle,
    Seoul, Shanghai, Stockholm, Sydney, Tehran, Tokyo, Toronto, Vancouver, Venice, Vienna, Warsaw, Zurich
    """,
    "state": """
    Alabama, Alaska, Arizona, Arkansas, California, Colorado, Connecticut, Delaware, Florida, Hawaii, Idaho,
    Illinois, Indiana, Iowa, Kansas, Kentucky, Louisiana, Maine, Maryland, Massachusetts, Michigan, Minnesota,
    Mississippi, Missouri, Montana, Nebraska, Nevada, New Hampshire, New Jersey, New Mexico, North Carolina,
    North Dakota, Ohio, Oklahoma, Oregon, Pennsylvania, Rhode Island, South Carolina, South Dakota, Tennessee,
    Texas, Utah, Vermont, Virginia, West Virginia, Wisconsin, Wyoming
    """,
    "continent": "Africa, Asia, Europe, South America, North America",
    "nationality in -an": """
    Albanian, American, Argentinian, Armenian, Australian, Austrian, Belgian, Brazilian,
    Bulgarian, Canadian, Chilean, Colombian, Croatian, Cuban, Egyptian, Estonian, Ethiopian, German,
    Ghanaian, Hungarian, Indian, Indonesian, Iranian, Italian, Jamaican, Kenyan, Korean, Latvian, Lithuanian,
    Mexican, Moroccan, Nigerian, Norwegian, Peruvian, Romanian, Russian, Serbian, Slovenian, Syrian, Ukrainian,
    Venezuelan
    """,
    "nationality of a continent": "African, Asian, European",
    "nationality in -ish": """
    British, Chinese, Danish, Dutch, English, Finnish, French, Irish, Japanese, Polish, Portuguese, Scottish,
    Spanish, Swedish, Turkish, Vietnamese, Welsh
    """,
}
WEEKDAYS = "Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday"

NATIONS_WITHIN = {"british": frozenset("english scottish welsh".split())}
"""Nationalities that contain others, in lower case: they do not stand in for each other."""

# Words that are something else in lower case, or a usual given name or surname.
AMBIGUOUS = frozenset(
    "turkey chile china jordan georgia polish finish may march sunday chad mali cuba florence milan".split()
)

MEN = """
Adam, Alan, Albert, Alexander, Alfred, Andrew, Anthony, Arthur, Benjamin, Bernard, Bill, Brian, Bruce, Carl,
Charles, Christopher, Daniel, David, Dennis, Donald, Douglas, Edward, Eric, Ernest, Frank, Fred, Frederick, Gary,
George, Gerald, Gordon, Graham, Gregory, Harold, Harry, Henry, Herbert, Howard, Hugh, Ian, Jack, James, Jason, Jeff,
Jeremy, Jim, Joe, John, Jonathan, Joseph, Keith, Kenneth, Kevin, Larry, Lawrence, Leonard, Louis, Mark, Martin,
Matthew, Michael, Mike, Nicholas, Oliver, Oscar, Patrick, Paul, Peter, Philip, Ralph, Raymond, Richard, Robert,
Roger, Ronald, Roy, Samuel, Scott, Simon, Stephen, Steve, Steven, Stuart, Theodore, Thomas, Timothy, Tom, Tony,
Vincent, Walter, William
"""
WOMEN = """
Alice, Amanda, Amy, Angela, Ann, Anna, Anne, Barbara, Betty, Carol, Caroline, Catherine, Charlotte, Christine,
Claire, Deborah, Diana, Donna, Dorothy, Eleanor, Elizabeth, Emily, Emma, Eva, Frances, Helen, Irene, Jane, Janet,
Jennifer, Jessica, Joan, Josephine, Judith, Julia, Julie, Karen, Kate, Katherine, Kathleen, Laura, Linda, Lisa,
Louise, Lucy, Margaret, Maria, Marie, Martha, Mary, Michelle, Nancy, Nicole, Patricia, Rachel, Rebecca, Ruth, Sally,
Sandra, Sarah, Sharon, Sophie, Stephanie, Susan, Teresa, Victoria, Wendy
"""

COLOURS = "red, blue, green, yellow, black, white, brown, grey, pink, purple"

NOUNS = {
    "person": """
    accountant, actor, architect, artist, athlete, author, baker, banker, boxer, carpenter, chef, composer,
    cook, dancer, dentist, detective, doctor, driver, economist, editor, engineer, farmer, firefighter,
    fisherman, gardener, historian, journalist, judge, lawyer, librarian, mathematician, merchant, mechanic,
    musician, novelist, nurse, painter, photographer, physician, pilot, plumber, poet, politician, priest,
    producer, professor, programmer, psychologist, reporter, sailor, scientist, sculptor, singer, soldier,
    songwriter, surgeon, teacher, waiter, wrestler, writer
    """,
    "animal": """
    bear, bird, camel, cat, cow, deer, dog, donkey, duck, eagle, elephant, fox, frog, giraffe, goat, horse,
    kangaroo, kitten, lion, lizard, monkey, owl, panda, parrot, pig, puppy, rabbit, rat, sheep, snake, squirrel,
    swan, tiger, turtle, wolf, zebra
    """,
    "drink": "beer, cider, coffee, lemonade, milk, rum, tea, vodka, water, whiskey, wine",
    "vegetable": """
    carrot, cucumber, onion, potato, pumpkin, tomato, aubergine, pepper, banana, apple, lemon, pear
    """,
    "instrument": """
    banjo, cello, clarinet, drum, flute, guitar, harp, piano, saxophone, trombone, trumpet, violin
    """,
    "vehicle": """
    bicycle, bike, boat, bus, canoe, car, ferry, helicopter, lorry, motorcycle, scooter, tractor, train, truck
    """,
    "room": "basement, bathroom, bedroom, garage, kitchen, attic, cellar, office",
    "sport": """
    badminton, baseball, basketball, boxing, cricket, football, golf, handball, hockey, rugby, soccer, tennis,
    volleyball
    """,
    "garment": "coat, dress, hat, jacket, shirt, skirt, sweater, scarf, cap",
    "furniture": "bed, bench, chair, couch, desk, sofa, table",
    "building": """
    bank, castle, cathedral, chapel, church, factory, hospital, hotel, library, lighthouse,
    mosque, museum, palace, prison, pub, restaurant, school, stadium, station, temple, theatre, tower,
    university, warehouse
    """,
    "water": "lake, river, canal, pond, stream",
    "land": "forest, valley, desert, swamp",
    "open land": "island, beach, meadow, farm",
    "height": "mountain, hill, cliff",
    "work": """
    album, book, comic, documentary, film, game, magazine, movie, musical, novel, opera, play, poem, song,
    symphony
    """,
    "science": """
    anthropology, astronomy, biology, botany, chemistry, economics, engineering, geography, geology, history,
    law, linguistics, literature, mathematics, medicine, philosophy, physics, psychology, sociology, theology
    """,
    "material": """
    brick, bronze, concrete, copper, glass, gold, iron, leather, marble, plastic, silver, steel, stone, wood
    """,
    "kin": """
    aunt, brother, cousin, daughter, father, grandfather, grandmother, mother, nephew, niece, sister, son, uncle
    """,
    "illness": "asthma, cancer, cholera, diabetes, influenza, leukemia, malaria, pneumonia, tuberculosis",
    "field of grass": "garden, park, field, yard",
    "meal": "breakfast, dinner, lunch",
    "settlement": "village, town, city, suburb, hamlet",
    "time": "hour, day, week, month, year, decade",
    "team": "company, band, team, club, committee, choir, gang",
    "document": "report, letter, map, contract, diary, speech",
    "container": "bag, bottle, bowl, box, basket, bucket, jar, suitcase",
    "event": "concert, conference, festival, wedding, tournament, exhibition, parade",
    "way": "road, street, trail, highway",
    "officer": "captain, sergeant, colonel, lieutenant, admiral",
    "dish": "sandwich, pizza, cake, burger, salad, omelette, soup, pancake",
    "tool": "knife, hammer, rope, stick, shovel, axe, ladder",
}
"""Common nouns by kind, singular."""

ALIKE = """
film movie documentary musical; book novel comic; football soccer rugby; dog puppy; cat kitten; church cathedral
chapel; bicycle bike scooter motorcycle; boat ferry canoe; author writer novelist poet journalist; doctor
physician surgeon dentist psychologist; musician singer songwriter composer; cellar basement; cancer leukemia;
lorry truck; journalist reporter editor; jacket coat; artist painter sculptor photographer musician singer
dancer actor composer; actor dancer; bed couch sofa; chair bench; car truck; play musical opera; river stream
canal; lake pond; hill mountain; factory warehouse; palace castle; theatre stadium; hotel pub restaurant; cousin
nephew niece; magazine comic book; village hamlet; town city; road street highway; company team club gang band;
garden park yard; duck swan bird eagle owl parrot; scientist psychologist mathematician economist professor
engineer historian; bear panda; hat cap; table desk; school university; lighthouse tower; biology botany; stone
marble brick concrete; bronze copper; iron steel; athlete boxer wrestler dancer; cook chef; teacher professor;
engineer programmer mechanic; sailor fisherman; suburb town; bag suitcase basket; bottle jar; concert festival;
sandwich burger; cake pancake; album song; opera symphony; lawyer judge; poet songwriter; merchant banker;
economist banker; bus car
"""
"""Nouns of one kind whose meanings are near or within one another: they do not stand in for each other."""


def listed(text: str) -> tuple[str, ...]:
    """Return the names of a list separated by commas."""
    return tuple(" ".join(name.split()) for name in text.split(","))
