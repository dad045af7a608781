#compdef lockstep
# zsh completion of lockstep. The words are the command's own: `lockstep --list-commands`, and of each command
# `lockstep COMMAND --list-options`, with --OPTION behind it that one's values.
_lockstep() {
  local -a given
  if ((CURRENT == 2)); then
    given=(${(f)"$(_call_program commands $words[1] --list-commands 2>/dev/null)"})
    compadd -a given
  elif [[ $words[2] == run && ${words[(i)--]} -lt $CURRENT ]]; then
    # behind `lockstep run ... --` stands a command line of its own
    integer behind=${words[(i)--]}
    shift $behind words
    ((CURRENT -= behind))
    _normal
  elif [[ $words[CURRENT] == -* ]]; then
    given=(${(f)"$(_call_program options $words[1] $words[2] --list-options 2>/dev/null)"})
    compadd -a given
  else
    [[ $words[CURRENT-1] == -* ]] &&
      given=(${(f)"$(_call_program values $words[1] $words[2] --list-options $words[CURRENT-1] 2>/dev/null)"})
    if (($#given)); then compadd -a given; else _files; fi
  fi
}
_lockstep "$@"
