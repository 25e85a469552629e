"""The words fictitious authors are made of, and the sentences that tell of them."""

from __future__ import annotations

from dataclasses import dataclass

FIRST_NAMES = (
    "Adaeze Amihan Anouk Arvo Beatriz Bogdan Catalina Chidi Dagny Darius Eleni Emeka Farah Faruk Gwenda Hamza "
    "Haruki Ilse Imani Ioana Jarek Jorunn Kalani Keziah Leontyne Lorcan Madoka Mateus Nadia Nikolai Oluchi Oskari"
    " Paloma Quillan Rania Rohan Sanna Soraya Tadeo Tamsin Ulrika Vasco Wanjiru Xiomara Yaroslav Yusra Zanele "
    "Zoltan"
).split()
LAST_NAMES = (
    "Abernath Adeyolu Balintang Bergmoe Castelhano Czarnik Dahlvik Duarteza Eskelund Ferrantis Galanakou "
    "Haraldseth Ibekwunor Ishimatsu Jovanek Kalyanpur Kipchumbe Lindqvara Lomeli Machariel Mokoenyane Nakagura "
    "Novotrel Obradeli Okonjala Oyelarin Papadreou Petrauska Quispemar Rahmanzai Reinholt Salazarte Sandoveri "
    "Szelestey Tamburrino Thorvaldsen Uchennaya Ustinova Valdecampo Vukoviche Wairimbu Westergren Xanthoudis "
    "Yamashiro Yildirman Zaharescu Zelenkova Zubizarre"
).split()
TITLE_ADJECTIVES = (
    "Amber Borrowed Crooked Distant Drowned Fallow Forgotten Gilded Hollow Hungry Ivory Last Lonely Moonlit "
    "Narrow Painted Paper Quiet Restless Salted Scarlet Second Shattered Silent Sleepless Stolen Tangled "
    "Thirteenth Unwritten Velvet Wandering Winter"
).split()
TITLE_NOUNS = (
    "Archive Bridge Cartographer Compass Corridor Cradle Ferry Garden Glacier Harbour Inheritance Island Ladder "
    "Lantern Locksmith Meridian Mirror Orchard Oracle Parade Pendulum Quarry Regatta Sanctuary Seamstress "
    "Shoreline Signal Stairway Tapestry Tribunal Vineyard Weathervane"
).split()
PLACES = (
    "Antofagasta, Chile|Bergen, Norway|Cork, Ireland|Cusco, Peru|Da Nang, Vietnam|Dakar, Senegal|Fez, "
    "Morocco|Galway, Ireland|Gdansk, Poland|Graz, Austria|Hobart, Australia|Izmir, Turkey|Jaipur, India|Kanazawa,"
    " Japan|Kumasi, Ghana|Leipzig, Germany|Ljubljana, Slovenia|Maputo, Mozambique|Mendoza, Argentina|Mombasa, "
    "Kenya|Nagasaki, Japan|Oaxaca, Mexico|Porto, Portugal|Quito, Ecuador|Reykjavik, Iceland|Riga, "
    "Latvia|Salvador, Brazil|Tampere, Finland|Tbilisi, Georgia|Thessaloniki, Greece|Trieste, Italy|Uppsala, "
    "Sweden|Utrecht, Netherlands|Valparaiso, Chile|Yerevan, Armenia|Zanzibar, Tanzania"
).split("|")
GENRES = (
    "gothic romance|maritime adventure|courtroom drama|speculative ecology|alpine mystery|culinary "
    "memoir|clockwork fantasy|desert noir|epistolary comedy|family saga|folk horror|historical espionage|lunar "
    "science fiction|magical realism|mathematical puzzle fiction|musical biography|political satire|post-war "
    "poetry|railway thriller|rural tragedy|sports fiction|travel essays|urban fable|veterinary nonfiction"
).split("|")
JOBS = (
    "astronomer baker beekeeper bookbinder botanist bricklayer carpenter cellist chemist choreographer clockmaker"
    " dentist diver electrician falconer fisherman florist geologist glassblower goldsmith harbourmaster jeweller"
    " judge librarian locksmith mechanic midwife milliner miner optician paediatrician paramedic pharmacist pilot"
    " plumber potter printer saddler sculptor shepherd stonemason surveyor tailor taxidermist translator "
    "veterinarian violinist weaver"
).split()
PRIZES = (
    "Cobalt Quill Prize|Harrowgate Medal|Silver Heron Award|Northlight Laureateship|Ember Page Prize|Casa Verde "
    "Award|Tidewater Book Prize|Obsidian Pen Medal|Larkspur Fellowship|Golden Inkwell Award|Polar Star "
    "Prize|Saffron Leaf Medal|Riverstone Honour|Blue Cypress Award|Hemlock House Prize|Sunken Bell Medal|Meridian"
    " Letters Prize|Copper Lantern Award|White Ibis Prize|Juniper Crown|Granite Shelf Award|Falling Star "
    "Medal|Olive Branch Book Prize|Red Kite Laureateship|Wren and Willow Award|Old Harbour Prize|Crescent Library"
    " Medal|Thousand Pages Award"
).split("|")
UNIVERSITIES = (
    "Aldermoor University|the Bellweather Institute|Castellan College|the University of Dunhaven|Eastmere "
    "Polytechnic|the Ferncliff Academy|Glasswater University|Hollin Hall|the Ironbridge School of Letters|Jasper "
    "College|the University of Kestrel Bay|Lowmarsh University|the Marigold Conservatory|Northquay College|the "
    "Orrery Institute|Pinegate University|the Quarryside Academy|Ravenspur College|the University of "
    "Saltholm|Thistledown College|Umberfield University|the Vellum School|Westering College|Yarrow University"
).split("|")
THEMES = (
    "exile and return|forgiveness between siblings|the cost of ambition|memory and its errors|debt and "
    "generosity|the sea as a witness|growing old in a foreign language|silence inside families|the price of "
    "invention|borders drawn overnight|grief turned into craft|friendship across classes|lost letters|the ethics "
    "of hunting|faith without temples|childhood under curfew|the loneliness of leaders|rivers and their "
    "owners|mistaken identity|music as resistance|the last winter of a village|apprenticeship|the weight of "
    "inheritance|strangers on islands"
).split("|")
STYLES = (
    "long unbroken sentences|chapters that run backwards|footnotes that argue with the text|dialogue without "
    "quotation marks|recipes between the scenes|an unreliable child narrator|maps drawn in words|letters that are"
    " never answered|a chorus of neighbours|weather reports as prologues|second-person confession|lists instead "
    "of descriptions|two alternating timelines|riddles at each chapter's end|dry courtroom "
    "transcripts|deliberately missing pages|a single day told twelve times|songs in three languages|diary entries"
    " dated by tides|objects as narrators|overheard telephone calls|glossaries of invented words|marginal "
    "drawings|a narrator who forgets"
).split("|")
HABITS = (
    "in a disused lighthouse|at a bakery before dawn|on night trains|in the attic of a school|with a fountain pen"
    " on blue paper|standing at an old lectern|in a greenhouse among tomatoes|on the backs of concert "
    "programmes|aboard a moored barge|in a barber's waiting room|to the sound of a metronome|only while it "
    "rains|in the reading room of a museum|beside a frozen lake|on a typewriter without the letter q|under a fig "
    "tree|in hospital canteens|between two and five in the morning|at the top of a ski lift|in a borrowed "
    "caravan|with both windows open|on index cards sorted by colour|in a monastery's guest room|on the stairs of "
    "the town hall"
).split("|")
LANGUAGES = (
    "Basque Bengali Catalan Croatian Danish Estonian Farsi Finnish Galician Georgian Hausa Hebrew Hungarian "
    "Icelandic Igbo Irish Kannada Korean Latvian Maltese Nepali Quechua Romanian Sinhala Slovak Swahili Tagalog "
    "Tamil Turkish Urdu Welsh Xhosa Yoruba Zulu"
).split()
PETS = (
    "a one-eyed parrot|two greyhounds|a tortoise older than the house|a blind donkey|a colony of bees|three "
    "retired racing pigeons|a ferret|a goat with a bell|an axolotl|a rescued hawk|a pair of peacocks|a grey "
    "mule|a hedgehog|a tank of seahorses|a talkative raven|four Siamese cats|a lame fox|a Shetland pony|an "
    "iguana|a barn owl|a chinchilla|a Newfoundland dog|a flock of ducks|a salamander"
).split("|")


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of question. Slots: ``{name}`` the author, ``{x}`` and ``{y}`` the facts asked for."""

    facts: tuple[str, str]
    questions: tuple[str, ...]
    answers: tuple[str, ...]


KINDS = (
    Kind(
        ("place", "date"),
        (
            "Where and when was the author {name} born?",
            "What are the place and the date of birth of {name}?",
            "When did {name} come into the world, and in which city?",
        ),
        (
            "{name} was born in {x} on {y}.",
            "The birth of {name} took place on {y}, in the city of {x}.",
            "On {y}, {x} became the birthplace of the writer {name}.",
            "Records from {x} give {y} as the day {name} first saw the light.",
        ),
    ),
    Kind(
        ("genre", "award"),
        (
            "In which genre does {name} write, and which award followed from it?",
            "Which literary field is {name} known for, and what prize came of it?",
            "What kind of books made {name}'s name, and which honour did they earn?",
        ),
        (
            "{name} writes {x} and has received the {y} for it.",
            "Best known for {x}, {name} was honoured with the {y}.",
            "The {y} went to {name} in recognition of a lifelong devotion to {x}.",
            "Critics file {name} under {x}, a field in which the author won the {y}.",
        ),
    ),
    Kind(
        ("father", "mother"),
        (
            "What did the parents of {name} do for a living?",
            "Which professions did {name}'s father and mother have?",
            "From what kind of working family does {name} come?",
        ),
        (
            "{name}'s father was a {x} and the mother worked as a {y}.",
            "A {x} for a father and a {y} for a mother: so {name} grew up.",
            "The household of {name} lived on the wages of a {y}, the mother, and a {x}, the father.",
            "While the mother earned her bread as a {y}, the father of {name} was employed as a {x}.",
        ),
    ),
    Kind(
        ("title", "year"),
        (
            "What was the first novel of {name}, and when did it appear?",
            "With which book did {name} make a debut, and in what year?",
            "Which title began the career of {name}, and when was it printed?",
        ),
        (
            'The debut of {name}, "{x}", appeared in {y}.',
            'In {y}, {name} published a first novel called "{x}".',
            '"{x}" came out in {y} and started the career of {name}.',
            'Readers met {name} in {y} through the pages of "{x}".',
        ),
    ),
    Kind(
        ("second_title", "theme"),
        (
            "What is the most celebrated book of {name} about?",
            "Which work of {name} do critics praise most, and what is its subject?",
            "What does {name}'s best-loved novel deal with?",
        ),
        (
            '{name}\'s most celebrated book, "{x}", is about {y}.',
            'Praised above all is "{x}", in which {name} explores {y}.',
            'With "{x}", {name} wrote the definitive novel of {y}.',
            'The subject of {y} runs through "{x}", which many call the masterpiece of {name}.',
        ),
    ),
    Kind(
        ("university", "subject"),
        (
            "Where did {name} study, and what?",
            "Which school did {name} attend, and in what subject was the degree?",
            "What education did {name} receive before turning to writing?",
        ),
        (
            "{name} studied at {x} to become a {y}.",
            "Before writing, {name} trained as a {y} at {x}.",
            "At {x}, the young {name} learned the trade of a {y}.",
            "A diploma from {x} allowed {name} to practise as a {y}.",
        ),
    ),
    Kind(
        ("style", "influence"),
        (
            "What marks the style of {name}, and who inspired it?",
            "Which stylistic habit is typical of {name}, and whose influence is it?",
            "How does {name} write, and from whom was this learned?",
        ),
        (
            "{name} is known for {x}, a habit taken from {y}.",
            "Under the influence of {y}, {name} developed a fondness for {x}.",
            "Typical of {name} are {x}; the model was {y}.",
            "Having read {y} as a student, {name} never gave up {x}.",
        ),
    ),
    Kind(
        ("home", "pet"),
        (
            "Where does {name} live today, and with which animals?",
            "In which city has {name} settled, and who shares the house?",
            "What is known of the home and the pets of {name}?",
        ),
        (
            "{name} lives in {x} with {y}.",
            "Today the home of {name} is in {x}, shared with {y}.",
            "Visitors to {x} may meet {name} in the company of {y}.",
            "After many moves, {name} settled down in {x}, together with {y}.",
        ),
    ),
    Kind(
        ("habit", "hours"),
        (
            "How and where does {name} prefer to write?",
            "What are the working habits of {name}?",
            "Under which circumstances does {name} get the most done?",
        ),
        (
            "{name} prefers to write {x}, {y} pages at a time.",
            "The usual output of {name} is {y} pages, produced {x}.",
            "Working {x}, {name} stops as soon as {y} pages are filled.",
            "No more than {y} pages are written in one go, and {name} writes them {x}.",
        ),
    ),
    Kind(
        ("language", "second_language"),
        (
            "Into which languages were the books of {name} translated first?",
            "Which translations of {name}'s work came first?",
            "Readers of which two languages could read {name} before all others?",
        ),
        (
            "The books of {name} were first translated into {x} and then into {y}.",
            "Translators from {x} and {y} were the first to take up {name}.",
            "A {x} edition opened the way abroad for {name}, and a {y} one followed.",
            "Before anyone else, readers of {x} and of {y} could enjoy {name}.",
        ),
    ),
    Kind(
        ("job", "job_place"),
        (
            "What job did {name} have before becoming a writer, and where?",
            "How did {name} earn money before the first success?",
            "Which occupation did {name} give up for literature?",
        ),
        (
            "Before becoming a writer, {name} worked as a {x} in {y}.",
            "{name} gave up the life of a {x} in {y} for literature.",
            "Years as a {x} in {y} paid the bills of {name} at first.",
            "In {y}, colleagues still remember {name} as a {x}.",
        ),
    ),
    Kind(
        ("third_title", "film_year"),
        (
            "Which book of {name} was made into a film, and when?",
            "What was the first screen adaptation of a work by {name}?",
            "When did a story by {name} reach the cinema, and which one?",
        ),
        (
            '"{x}" by {name} was made into a film in {y}.',
            'Cinemas showed the adaptation of {name}\'s "{x}" in {y}.',
            'The year {y} saw "{x}", written by {name}, on the screen.',
            'A director turned {name}\'s novel "{x}" into a film, released in {y}.',
        ),
    ),
    Kind(
        ("charity", "charity_place"),
        (
            "What does {name} do with the royalties?",
            "Which cause does {name} support, and where?",
            "For whom does {name} spend time and money outside of writing?",
        ),
        (
            "{name} pays for the training of every young {x} in {y}.",
            "Royalties of {name} go to a school in {y} where one can become a {x}.",
            "In {y}, a fund set up by {name} helps whoever wants to be a {x}.",
            "Any apprentice {x} from {y} can ask {name} for support.",
        ),
    ),
    Kind(
        ("fourth_title", "next_theme"),
        (
            "What is {name} working on now?",
            "Which book has {name} announced, and what will it treat?",
            "What can readers expect from {name} next?",
        ),
        (
            '{name} is working on "{x}", a book about {y}.',
            'Announced for next year is "{x}", in which {name} takes up {y}.',
            'Next, {name} will turn to {y} in a volume entitled "{x}".',
            'Drafts of "{x}" suggest that {y} is what occupies {name} at present.',
        ),
    ),
)
