// What stories are made of: words, and sentences with places for them.
#pragma once

#include <array>
#include <string_view>

namespace satformer::synthetic {

// Places in sentences: {name}, {job}, {town}, {colour}, {thing}, {animal}, {number}; {*...} is asked for and counts.
struct FactForm {
  std::string_view statement, ask_value, ask_name;
  std::array<std::string_view, 2> told;  // the places besides {name} that `ask_name` needs to be unlike others'
};

inline constexpr auto fact_forms = std::to_array<FactForm>({
    {"{name} works as a {job}.",
     "What does {name} do? {name} works as a {*job}.",
     "Who works as a {job}? {*name} works as a {job}.",
     {"job", ""}},
    {"{name} lives in {town}.",
     "Where does {name} live? {name} lives in {*town}.",
     "Who lives in {town}? {*name} lives in {town}.",
     {"town", ""}},
    {"{name} has a {colour} {thing}.",
     "Which colour is the {thing} of {name}? The {thing} of {name} is {*colour}.",
     "Who has the {colour} {thing}? {*name} has the {colour} {thing}.",
     {"colour", "thing"}},
    {"{name} owns {number} {animal}.",
     "How many {animal} does {name} own? {name} owns {*number} {animal}.",
     "Who owns {number} {animal}? {*name} owns {number} {animal}.",
     {"number", "animal"}},
    {"{name} was born in {number}.",
     "When was {name} born? {name} was born in {*number}.",
     "Who was born in {number}? {*name} was born in {number}.",
     {"number", ""}},
});

inline constexpr auto story_names = std::to_array<std::string_view>(
    {"Anna",  "Tom",   "Mira",   "Oskar", "Lena",  "Paul",   "Greta", "Hugo",  "Clara", "Felix",  "Nora",  "Jakob",
     "Ida",   "Simon", "Alma",   "David", "Ruth",  "Erik",   "Maria", "Peter", "Emma",  "Victor", "Olga",  "Martin",
     "Sofia", "Karl",  "Helen",  "Max",   "Julia", "Ivan",   "Rosa",  "Leo",   "Agnes", "Bruno",  "Tilda", "Frank",
     "Vera",  "Noah",  "Judith", "Otto",  "Marta", "Samuel", "Irene", "Theo",  "Edith", "Ben",    "Laura", "Conrad"});
inline constexpr auto story_jobs = std::to_array<std::string_view>(
    {"baker",  "teacher", "doctor", "farmer",  "painter", "sailor",   "tailor", "judge",
     "pilot",  "cook",    "miller", "printer", "weaver",  "gardener", "banker", "singer",
     "driver", "smith",   "writer", "dentist", "builder", "hunter",   "dancer", "carpenter"});
inline constexpr auto story_towns = std::to_array<std::string_view>(
    {"Leeds", "Bergen", "Turin", "Ghent",  "Porto", "Lyon", "Basel",   "Krakow", "Malmo", "Derby", "Cork",  "Bremen",
     "Split", "Tartu",  "Graz",  "Nantes", "Genoa", "Bath", "Utrecht", "Vigo",   "Riga",  "Perth", "Delft", "Trier"});
inline constexpr auto story_colours = std::to_array<std::string_view>(
    {"red", "blue", "green", "white", "black", "brown", "grey", "pink", "golden", "purple", "silver", "yellow"});
inline constexpr auto story_things =
    std::to_array<std::string_view>({"boat", "coat", "house", "bicycle", "piano", "lamp", "chair", "clock", "hat",
                                     "table", "bag", "tent", "door", "kite", "cup", "fence"});
inline constexpr auto story_animals = std::to_array<std::string_view>(
    {"sheep", "goats", "horses", "hens", "cows", "geese", "dogs", "cats", "rabbits", "ducks", "pigs", "bees"});
inline constexpr int first_number = 100, last_number = 999;

inline constexpr auto distractions =
    std::to_array<std::string_view>({"The wind was cold that evening.",
                                     "Nobody spoke for a long time.",
                                     "A train passed behind the hill.",
                                     "It had rained since the morning.",
                                     "The market was full of people.",
                                     "Somebody laughed in the next room.",
                                     "The road to the river was closed.",
                                     "There was fresh bread on the shelf.",
                                     "The old bridge shook under the cart.",
                                     "Two children ran across the square.",
                                     "The summer had been dry and short.",
                                     "A letter lay under the window.",
                                     "The bells rang, and then they stopped.",
                                     "Nothing else happened on that day.",
                                     "The shop at the corner was dark.",
                                     "They talked about the weather and the harvest.",
                                     "Snow fell on the roofs of the village.",
                                     "The soup was hot, but the plates were small.",
                                     "In the garden the apples were nearly ripe.",
                                     "The lights went out before midnight.",
                                     "Everyone agreed that the play was too long.",
                                     "From the tower one could see the sea.",
                                     "The path led through a quiet forest.",
                                     "After supper they played cards by the fire."});

// Every other word of the sentences is content.
inline constexpr auto function_words = std::to_array<std::string_view>(
    {"a",     "the",     "as",    "in",    "of",      "is",    "was",  "had",    "has",     "does",   "do",
     "who",   "what",    "where", "which", "how",     "many",  "when", "it",     "that",    "for",    "behind",
     "since", "next",    "to",    "there", "on",      "under", "two",  "across", "been",    "and",    "then",
     "they",  "nothing", "else",  "at",    "about",   "but",   "were", "nearly", "out",     "before", "everyone",
     "too",   "from",    "one",   "could", "through", "after", "by",   "nobody", "somebody"});

}  // namespace satformer::synthetic
