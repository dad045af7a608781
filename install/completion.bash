# bash completion of lockstep. The words are those of the command itself: `lockstep --list-commands`, and of each command
# `lockstep COMMAND --list-options`, which prints its table of options, or with --OPTION behind it that one's values.
_lockstep() {
  local lockstep=${COMP_WORDS[0]} current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]-} words i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    [[ ${COMP_WORDS[i]} == -- ]] || continue
    # behind `lockstep run ... --` stands a command line of its own
    COMP_WORDS=("${COMP_WORDS[@]:i + 1}") COMP_CWORD=$((COMP_CWORD - i - 1))
    if ((COMP_CWORD == 0)); then
      mapfile -t COMPREPLY < <(compgen -c -- "$current")
    elif [[ ${COMP_WORDS[0]##*/} == lockstep ]]; then
      _lockstep
    fi
    return
  done
  if ((COMP_CWORD == 1)); then
    words=$("$lockstep" --list-commands 2>/dev/null)
  elif [[ ${COMP_WORDS[1]} == help ]]; then
    words=$("$lockstep" --list-commands 2>/dev/null)
  elif [[ $current == -* ]]; then
    words=$("$lockstep" "${COMP_WORDS[1]}" --list-options 2>/dev/null)
  else
    [[ $current != = ]] || current=  # of --OPTION=VALUE
    [[ $before != = ]] || before=${COMP_WORDS[COMP_CWORD - 2]}
    [[ $before != -* ]] || words=$("$lockstep" "${COMP_WORDS[1]}" --list-options "$before" 2>/dev/null)
  fi
  [[ -z ${words-} ]] || mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}
complete -o default -F _lockstep lockstep
