package children

import (
	"strconv"
	"strings"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// The Ansible inventory is YAML for Ansible's yaml plugin, with one Ansible group with the VmGroup's name. All names
// are quoted: a group can be called "on", "null" or "2026-11", which are not strings in YAML.

// ansibleInventory returns an inventory of these hosts.
func ansibleInventory(group string, hosts []byte) string {
	if len(hosts) == 0 {
		return `"` + ansibleGroup(group) + "\":\n  hosts: {}\n"
	}
	return `"` + ansibleGroup(group) + "\":\n  hosts:\n" + string(hosts)
}

// ansibleGroup returns a VmGroup's name as Ansible allows it: letters, digits and '_', not starting with a digit. The names of
// VmGroups are DNS labels, so different names stay different.
func ansibleGroup(name string) string {
	name = strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			return c
		}
		return '_'
	}, name)
	if name != "" && name[0] <= '9' {
		name = "_" + name
	}
	return name
}

// appendHost appends the member as a host. Ansible expands templates in the inventory, and guests can report any
// text: only a well-formed address goes into ansible_host.
func (m *Member) appendHost(b []byte, group string) []byte {
	b = append(append(append(b, `    "`...), group...), '-')
	b = append(strconv.AppendInt(b, int64(m.Ordinal), 10), `": {`...)
	for _, ip := range m.IPs {
		if a, ok := plan.Usable(ip); ok {
			b = append(a.AppendTo(append(b, `ansible_host: "`...)), `", `...)
			break
		}
	}
	b = strconv.AppendInt(append(b, `vmgroup_ordinal: `...), int64(m.Ordinal), 10)
	b = strconv.AppendBool(append(b, `, vmgroup_ready: `...), m.Ready)
	return append(b, "}\n"...)
}
