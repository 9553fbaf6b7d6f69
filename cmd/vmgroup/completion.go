package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// completions let the scripts of vmgroup completion work in a shell that nothing has prepared for completion.
var completions = map[string]struct {
	generate func(*cobra.Command, *bytes.Buffer) error
	// before is a line of the script, and prepare what comes before it.
	before, prepare string
}{
	// cobra's script calls two functions of the package bash-completion: the first splits the line into words, not at "=" and ":" as bash does,
	// and puts the current one into cur; the second removes what is before a colon, at which bash begins another word.
	"bash": {func(root *cobra.Command, out *bytes.Buffer) error { return root.GenBashCompletionV2(out, true) }, "", `if ! declare -F _get_comp_words_by_ref >/dev/null; then
    _get_comp_words_by_ref() {
        local i
        words=() cword=-1
        for ((i = 0; i <= COMP_CWORD; i++)); do
            if [[ $cword -gt 0 && ( ${COMP_WORDS[i]} == [=:]* || ${words[cword]} == *[=:] ) ]]; then
                words[cword]+=${COMP_WORDS[i]}
            else
                words[++cword]=${COMP_WORDS[i]}
            fi
        done
        cur=${words[cword]} prev=${words[cword-1]}
    }
fi
if ! declare -F __ltrim_colon_completions >/dev/null; then
    __ltrim_colon_completions() {
        local i
        [[ $1 == *:* ]] || return 0
        for i in "${!COMPREPLY[@]}"; do COMPREPLY[i]=${COMPREPLY[i]#"${1%"${1##*:}"}"}; done
    }
fi
`},
	// compdef is a function that compinit defines.
	"zsh": {func(root *cobra.Command, out *bytes.Buffer) error { return root.GenZshCompletion(out) }, "compdef ", `(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
`},
}

// prepareCompletions changes the commands of cobra that write the scripts of these shells.
func prepareCompletions(root *cobra.Command) {
	for _, c := range root.Commands() {
		if c.Name() != "completion" {
			continue
		}
		for _, shell := range c.Commands() {
			of, is := completions[shell.Name()]
			if !is || shell.RunE == nil {
				continue
			}
			shell.Long = strings.Replace(shell.Long, "This script depends on the 'bash-completion' package.\nIf it is not installed already, you can install it via your OS's package manager.\n\n", "", 1)
			shell.RunE = func(*cobra.Command, []string) error {
				var script bytes.Buffer
				if err := of.generate(root, &script); err != nil {
					return err
				}
				at := max(0, strings.Index("\n"+script.String(), "\n"+of.before))
				_, err := fmt.Fprint(root.OutOrStdout(), script.String()[:at], of.prepare, script.String()[at:])
				return err
			}
		}
	}
}
