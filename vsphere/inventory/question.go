package inventory

import (
	"strings"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// questionText returns a VM's question for people: its messages in the session's language where vCenter has them (only "on servers that
// support localization", VirtualMachineQuestionInfo.message), otherwise its text, which begins with the message's id; and the choices.
func questionText(q *types.VirtualMachineQuestionInfo) string {
	var texts, choices []string
	for _, m := range q.Message {
		if m.Text != "" {
			texts = append(texts, m.Text)
		}
	}
	if len(texts) == 0 {
		texts = []string{q.Text}
	}
	for _, c := range q.Choice.ChoiceInfo {
		if d := c.GetElementDescription(); d.Label != "" {
			choices = append(choices, d.Label)
		} else {
			choices = append(choices, d.Key)
		}
	}
	text := vcfault.Steady(strings.Join(texts, " "))
	if text == "" {
		text = "a question without words"
	}
	if len(choices) > 0 {
		text += " " + vcfault.Steady("(choices: "+strings.Join(choices, ", ")+")")
	}
	return text
}
