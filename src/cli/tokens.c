/* lockstep tokens: texts as tokens of a language model, and back. */
#include <lockstep/tools.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/common_options.h"

static const char about[] =
    "lockstep tokens: turn texts into the tokens of a language model, and back\n"
    "\n"
    "usage: lockstep tokens FILE... --tokens bytes|chars|gpt2 [OPTIONS]\n"
    "\n"
    "FILE is a text, or with --decode a file of tokens; - is standard input. The ids of all files, one behind the "
    "other,\n"
    "go to --out FILE, or as numbers to standard output. With --out, or --json, each file's bytes of text, tokens and\n"
    "vocabulary are printed.\n";
static const char more[] =
    "tokens:\n"
    "  bytes  a byte is a token, of 256\n"
    "  chars  a character is a token: those of the files, or of --vocabulary, in the order of their code points\n"
    "  gpt2   GPT-2's byte pair encoding, as tiktoken has it. Each run of bytes that is not UTF-8 is a word of its "
    "own\n"
    "\n"
    "formats:\n"
    "  llmc    llm.c's: 256 int32 with magic, version and count; then uint16, or uint32 for more than 65536 tokens\n"
    "  uint16  nanoGPT's: the ids alone\n"
    "  text    numbers with white space between\n"
    "\n"
    "examples:\n"
    "  lockstep tokens input.txt --tokens gpt2 --vocabulary gpt2 --out train.bin\n"
    "  lockstep tokens train.bin --tokens gpt2 --vocabulary gpt2 --decode\n"
    "  echo Hello | lockstep tokens - --tokens bytes\n"
    "\n"
    "exit status: 0 success; 2 a bad command line, or a file that is not there or is refused; 1 a\n"
    "damaged file, or anything else.\n";

static const char *const kinds[] = {"bytes", "chars", "gpt2", NULL};
static const char *const token_formats[] = {"llmc", "uint16", "text", NULL};

#define AT(field) LS_OPTION_AT(ls_tools_tokens_options, field)

static const struct ls_option rows[] = {
    {"tokens", NULL, "what a token is", AT(kind), .words = kinds},
    {"vocabulary", "PATH", "gpt2: the folder of vocab.bpe and encoder.json; chars: a text that has the characters",
     AT(vocabulary)},
    {"out", "FILE", "write there", AT(output)},
    {"format", NULL, "of tokens (default: of --out's name, .bin is llmc; of a file, what it holds)", AT(format),
     .words = token_formats},
    {"decode", NULL, "files are of tokens, and become text", AT(decode), true},
    {"special", NULL, "<|endoftext|> in a text is one token", AT(special), true},
    {"documents", NULL, "<|endoftext|> before each block that a blank line ends, as llm.c does", AT(documents), true},
    {"json", NULL, "print one JSON object a file: file, bytes, tokens, vocabulary", AT(json), true},
    {0}};
static const struct ls_option_table tables[] = {{"options", rows, 0}, {0}};

/* Standard input can be read once. */
static bool check_once(const struct ls_command_line *line, char **paths, int count) {
    int times = 0;
    for (int i = 0; i < count; i++) times += !strcmp(paths[i], "-");
    return times < 2 || LS_REFUSE(line, "'-' is given %d times: standard input is read once", times);
}

int tokens_main(int argc, char **argv) {
    struct ls_command_line line = {"lockstep tokens", argc, argv, about, more, tables, 0};
    ls_tools_tokens_options options = {NULL};
    int count, code = ls_options_read_around(&line, &options, &count);
    if (code >= 0) return code;
    if (!count) return ls_usage_error(&line, "no file is given");
    if (!options.kind) return ls_usage_error(&line, "it needs --tokens bytes, chars or gpt2");
    if (!check_once(&line, argv, count)) return LS_EXIT_USAGE;
    return ls_exit(ls_tools_tokens(&options, (const char *const *)argv, count, stdout));
}
