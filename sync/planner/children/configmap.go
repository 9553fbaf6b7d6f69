package children

import (
	"encoding/json"
	"fmt"
	"strconv"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// maxChildBytes is where the members' ConfigMap is split: its last-applied annotation, which has all of it again, may
// not exceed 262,144 bytes (the API server's limit for all annotations). The rest is room for metadata.
const maxChildBytes = 200_000

// The keys of the members' ConfigMap.
const (
	membersKey   = "members.json"
	inventoryKey = "inventory.yaml"
)

// configMaps publishes the members in "<group>-members", and in more, numbered from 2, where one is too small. Each is
// complete for its members. The JSON is written by hand, because every sync of every group runs this.
func (pub Publisher) configMaps(members []Member) []plan.Child {
	if len(members) == 0 && pub.comesLater() {
		return nil
	}
	p := part{list: make([]byte, 0, 96*len(members)), hosts: make([]byte, 0, 96*len(members))}
	var all []plan.Child
	flush := func() {
		name := pub.Group.Name + "-members"
		if len(all) > 0 {
			name = fmt.Sprintf("%s-%d", name, len(all)+1)
		}
		all = append(all, plan.Child{Key: plan.ChildKey{Kind: plan.KindConfigMap, Name: name}, Labels: pub.childLabels(), Fields: plan.ConfigMapFields{Data: p.data(pub.Group.Name)}})
		p = part{list: p.list[:0], hosts: p.hosts[:0]}
	}
	for i := range members {
		before := p
		p.add(pub.Group.Name, &members[i])
		if p.size > maxChildBytes && len(before.list) > 0 {
			p = before
			flush()
			p.add(pub.Group.Name, &members[i])
		}
	}
	flush()
	return all
}

// comesLater reports whether the ConfigMap doesn't exist yet and is created with the first member. An empty ConfigMap has no information, and each
// write delays others while many groups are created. A group of zero replicas has an empty ConfigMap.
func (pub Publisher) comesLater() bool {
	_, there := pub.Children[plan.ChildKey{Kind: plan.KindConfigMap, Name: pub.Group.Name + "-members"}]
	return !there && pub.Group.Replicas() > 0
}

// part is the content of one ConfigMap: the lines of both texts, and how many bytes they take in the annotation.
type part struct {
	list, hosts []byte
	size        int
}

func (p *part) add(group string, m *Member) {
	list, hosts := len(p.list), len(p.hosts)
	if list > 0 {
		p.list = append(p.list, ',')
	}
	p.list = m.appendJSON(append(p.list, "\n "...))
	p.hosts = m.appendHost(p.hosts, group)
	p.size += encodedLen(p.list[list:]) + encodedLen(p.hosts[hosts:])
}

func (p *part) data(group string) map[string]string {
	return map[string]string{membersKey: "[" + string(p.list) + "\n]\n", inventoryKey: ansibleInventory(group, p.hosts)}
}

// encodedLen is the length of a text within a JSON string. The text is JSON itself, so it has nothing else to escape.
func encodedLen(text []byte) int {
	n := len(text)
	for _, c := range text {
		if c == '"' || c == '\\' || c == '\n' {
			n++
		}
	}
	return n
}

// appendJSON appends the member as JSON for pods and scripts.
func (m *Member) appendJSON(b []byte) []byte {
	b = appendText(append(b, `{"name":`...), m.Name)
	b = strconv.AppendInt(append(b, `,"ordinal":`...), int64(m.Ordinal), 10)
	if m.VMName != "" {
		b = appendText(append(b, `,"vmName":`...), m.VMName)
	}
	if m.Power != "" {
		b = appendText(append(b, `,"powerState":`...), m.Power)
	}
	b = append(b, `,"ips":[`...)
	for i, ip := range m.IPs {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(b, ip)
	}
	b = strconv.AppendBool(append(b, `],"ready":`...), m.Ready)
	return append(b, '}')
}

// appendText appends a text as a JSON string.
func appendText(b []byte, text string) []byte {
	for i := 0; i < len(text); i++ {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, _ := json.Marshal(text) // cannot fail: it is a string
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, text...)
	return append(b, '"')
}
