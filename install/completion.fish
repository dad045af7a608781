# fish completion of lockstep. The words are the command's own: `lockstep --list-commands`, and of each command
# `lockstep COMMAND --list-options`, with --OPTION behind it that one's values.
function __lockstep_options
    set -l words (commandline -opc)
    test (count $words) -gt 1; and $words[1] $words[2] --list-options 2>/dev/null
end
function __lockstep_values
    set -l words (commandline -opc)
    test (count $words) -gt 2; and string match -q -- "-*" $words[-1]; and $words[1] $words[2] --list-options $words[-1] 2>/dev/null
end
function __lockstep_first
    test (count (commandline -opc)) -eq 1
end
complete -c lockstep -n __lockstep_first -f -a '(lockstep --list-commands 2>/dev/null)'
complete -c lockstep -n 'not __lockstep_first; and string match -q -- "-*" (commandline -ct)' -a '(__lockstep_options)'
complete -c lockstep -n 'not __lockstep_first' -a '(__lockstep_values)'
