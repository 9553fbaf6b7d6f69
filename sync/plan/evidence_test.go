package plan

import (
	"strings"
	"testing"
	"time"
)

var (
	stamped   = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	ours      = Arrival{Read: true, How: Cloned, At: stamped.Add(time.Minute), User: "server", Ours: true, Name: "web-1"}
	unrelated = Arrival{Read: true, How: Created, At: stamped.Add(time.Hour), User: "backup", Name: "restored"}
)

// claim is a VM with the stamp of web-1 of which nothing else is known but that vCenter has no event of it.
func claim(change func(*Evidence)) *Evidence {
	c := &Evidence{VM: &VM{MoRef: "vm-7", Name: "web-1", Ordinal: 1, InstanceUUID: "u", Created: stamped, File: "[ds] web-1/web-1.vmx"}, Arrival: Arrival{Read: true}}
	change(c)
	return c
}

func arrives(change func(*Arrival)) func(*Evidence) {
	return func(c *Evidence) {
		c.InFolder, c.Arrival = true, ours
		change(&c.Arrival)
	}
}

func TestWhatShowsThatAVMIsAGroups(t *testing.T) {
	const stray, strayThatHolds, pending, pendingThatHolds = "stray", "stray that holds its ordinal", "pending", "pending, and holds its ordinal"
	for name, c := range map[string]struct {
		claim func(*Evidence)
		want  string
	}{
		"listed by the status":                              {func(c *Evidence) { c.Recorded, c.Arrival = true, unrelated }, "Recorded"},
		"made by this process":                              {func(c *Evidence) { c.Made = true }, "MadeHere"},
		"no evidence":                                       {func(*Evidence) {}, stray},
		"no evidence, and not read":                         {func(c *Evidence) { c.Arrival = Arrival{} }, pending},
		"in place, and not read":                            {func(c *Evidence) { c.InFolder, c.Arrival = true, Arrival{} }, pendingThatHolds},
		"in place, without an event":                        {func(c *Evidence) { c.InFolder = true }, "InFolder"},
		"in place, where the folder isn't known":            {func(c *Evidence) { c.FolderUnknown, c.InFolder = true, false }, pending},
		"in place, without an event, a stray before":        {func(c *Evidence) { c.InFolder, c.Listed = true, true }, strayThatHolds},
		"in place, without an event, and another is member": {func(c *Evidence) { c.InFolder, c.Filled, c.VM.Name = true, true, "web-1 (1)" }, stray},
		"our clone":                                         {arrives(func(*Arrival) {}), "MadeByAccount"},
		"our clone, of another name":                        {arrives(func(a *Arrival) { a.Name = "web-2" }), strayThatHolds},
		"our clone, that another made":                      {arrives(func(a *Arrival) { a.Ours = false }), strayThatHolds},
		"our clone, a day later":                            {arrives(func(a *Arrival) { a.At = stamped.Add(24 * time.Hour) }), strayThatHolds},
		"our clone, before its stamp":                       {arrives(func(a *Arrival) { a.At = stamped.Add(-16 * time.Minute) }), strayThatHolds},
		"created by our account":                            {arrives(func(a *Arrival) { a.How = Created }), strayThatHolds},
		"registered in place":                               {arrives(func(a *Arrival) { a.How = Registered }), strayThatHolds},
		"our clone, elsewhere":                              {func(c *Evidence) { c.Arrival = ours }, strayThatHolds},
		"our clone, in a moved folder":                      {func(c *Evidence) { c.InFormerFolder, c.Arrival = true, ours }, "MadeByAccount"},
		"elsewhere, and not read yet":                       {func(c *Evidence) { c.Fresh, c.Arrival = true, Arrival{} }, pendingThatHolds},
		"elsewhere, another name, not yet":                  {func(c *Evidence) { c.Fresh, c.VM.Name, c.Arrival = true, "x", Arrival{} }, pending},
		"in a moved folder, and not read":                   {func(c *Evidence) { c.InFormerFolder, c.Arrival = true, Arrival{} }, pendingThatHolds},
		"in a moved folder, no event":                       {func(c *Evidence) { c.InFormerFolder = true }, stray},
		"registered in a moved folder":                      {func(c *Evidence) { c.InFormerFolder, c.Arrival = true, unrelated }, stray},
		"another's clone, elsewhere":                        {func(c *Evidence) { c.Arrival = ours; c.Arrival.Ours = false }, stray},
		"our clone, whose identity a stranger copied":       {func(c *Evidence) { c.InFolder, c.Claimed, c.Arrival = true, true, ours }, "MadeByAccount"},
		"our clone, whose identity a VM of the group's has": {func(c *Evidence) { c.InFolder, c.Former, c.Arrival = true, There, ours }, strayThatHolds},
		"restored, whose identity a stranger copied":        {func(c *Evidence) { c.InFolder, c.Claimed, c.Arrival = true, true, unrelated }, strayThatHolds},
		"in place, without an event, and claimed elsewhere": {func(c *Evidence) { c.InFolder, c.Claimed = true, true }, strayThatHolds},
		"restored, in place":                                {func(c *Evidence) { c.InFolder, c.Former, c.Arrival = true, Destroyed, ours }, strayThatHolds},
		"restored, elsewhere":                               {func(c *Evidence) { c.Former, c.Arrival = Destroyed, unrelated }, stray},
		"an identity that another VM has":                   {func(c *Evidence) { c.Former, c.InFolder = There, true }, strayThatHolds},
		"a copied identity":                                 {func(c *Evidence) { c.Former, c.InFolder = Sought, true }, pending},
		"back, and not read":                                {func(c *Evidence) { c.Former, c.Arrival = HasVanished, Arrival{} }, pending},
		"back with its host":                                {func(c *Evidence) { c.Former, c.Arrival.How = HasVanished, Discovered }, "Returned"},
		"back with its host, unused":                        {func(c *Evidence) { c.Former, c.Arrival.How = Left, Discovered }, "Returned"},
		"back with its host, another file":                  {func(c *Evidence) { c.Former, c.Arrival.How, c.FormerFile = HasVanished, Discovered, "[ds] x/x.vmx" }, stray},
		"migrated from the former vCenter": {func(c *Evidence) {
			c.Former, c.Moved, c.FormerFile, c.Arrival.How = HasVanished, true, "[ds2] x/x.vmx", Migrated
		}, "Returned"},
		"migrated, without an operator's word": {func(c *Evidence) { c.Former, c.FormerFile, c.Arrival.How = HasVanished, "[ds2] x/x.vmx", Migrated }, stray},
		"registered in another vCenter, another file": {func(c *Evidence) {
			c.Former, c.Moved, c.FormerFile, c.Arrival.How = HasVanished, true, "[ds2] x/x.vmx", Registered
		}, stray},
		"cloned in another vCenter": {func(c *Evidence) { c.Former, c.Moved, c.Arrival.How = HasVanished, true, Cloned }, stray},
		"back, registered":          {func(c *Evidence) { c.Former, c.Arrival.How, c.FormerFile = HasVanished, Registered, c.VM.File }, "Returned"},
		"back, registered in place": {func(c *Evidence) { c.Former, c.Arrival.How, c.InFolder = HasVanished, Registered, true }, "Returned"},
		"unused, registered":        {func(c *Evidence) { c.Former, c.Arrival.How, c.FormerFile = Left, Registered, c.VM.File }, stray},
		"another file, registered": {func(c *Evidence) {
			c.Former, c.Arrival.How, c.FormerFile, c.InFolder = HasVanished, Registered, "[ds] x/x.vmx", true
		}, strayThatHolds},
		"missing, and created since":        {func(c *Evidence) { c.Former, c.Arrival, c.FormerFile = HasVanished, unrelated, c.VM.File }, stray},
		"missing, and cloned by us since":   {func(c *Evidence) { c.Former, c.Arrival, c.InFolder = HasVanished, ours, true }, strayThatHolds},
		"back in a restored vCenter":        {func(c *Evidence) { c.Former, c.InFolder = HasVanished, true }, "Returned"},
		"back in a restored vCenter, moved": {func(c *Evidence) { c.Former = HasVanished }, stray},
		"adopted":                           {func(c *Evidence) { c.Named, c.Arrival = true, unrelated; c.Arrival.At = stamped.Add(-time.Hour) }, "Adopted"},
		"adopted, without an event":         {func(c *Evidence) { c.Named = true }, "Adopted"},
		"adopted, younger than its stamp":   {func(c *Evidence) { c.Named, c.Arrival = true, unrelated }, stray},
		"adopted, and replaced":             {func(c *Evidence) { c.Named, c.Filled = true, true }, stray},
		"a member that is a template":       {func(c *Evidence) { c.Recorded, c.VM.IsTemplate = true, true }, strayThatHolds},
		"a template that is a stranger's":   {func(c *Evidence) { c.VM.IsTemplate = true }, stray},
	} {
		proof, x := Weigh("web", claim(c.claim))
		got := string(proof)
		if x != nil {
			got = map[[2]bool]string{{}: stray, {false, true}: strayThatHolds, {true}: pending, {true, true}: pendingThatHolds}[[2]bool{x.Pending, x.Holds}]
		}
		if got != c.want || (proof != "") == (x != nil) {
			t.Errorf("%s: got %q (%+v); want %q", name, got, x, c.want)
		}
		if x != nil && (x.Why == "" || x.MoRef != "vm-7") {
			t.Errorf("%s: the stray %+v doesn't say why, or of which VM", name, x)
		}
	}
}

// Whoever has rights only on VMs and folders of his own can bring about everything but these: the status, a task of the server, the group's folder, the
// fate of a member, what spec.adopt names, and a member's .vmx file. Whatever he writes, and whatever vCenter's events say of his
// VM, it is never a group's, and holds no ordinal.
func TestNothingThatAStrangerCanWriteMakesHisVMAGroups(t *testing.T) {
	flags := []bool{false, true}
	for _, how := range []Coming{"", Created, Cloned, Registered, Discovered} {
		for _, read := range flags {
			for _, filled := range flags {
				for _, listed := range flags {
					for _, fate := range []Fate{"", Sought, HasVanished, Left, Destroyed} {
						for _, at := range []time.Time{{}, stamped.Add(-time.Hour), stamped, stamped.Add(time.Hour)} {
							for _, name := range []string{"web-1", "own"} {
								c := claim(func(c *Evidence) {
									c.Filled, c.Listed, c.Former, c.FormerFile, c.VM.File = filled, listed, fate, "[ds] web-1/web-1.vmx", "[ds] own/own.vmx"
									c.Arrival = Arrival{Read: read, How: how, At: at, User: "eve", Name: name}
								})
								if proof, x := Weigh("web", c); proof != "" || x.Holds {
									t.Fatalf("%+v is the group's by %q, or holds its ordinal (%+v)", c, proof, x)
								}
							}
						}
					}
				}
			}
		}
	}
}

// A VM of which the group's status or this process knows a former one that was destroyed has been restored, whatever else is known.
func TestARestoredVMIsNeverTheGroupsWithoutAWord(t *testing.T) {
	flags := []bool{false, true}
	for _, in := range flags {
		for _, named := range flags {
			for _, filled := range flags {
				for _, a := range []Arrival{{}, {Read: true}, ours, unrelated, {Read: true, How: Registered}, {Read: true, How: Discovered}} {
					c := claim(func(c *Evidence) {
						c.InFolder, c.Named, c.Filled, c.Arrival, c.Former, c.FormerFile = in, named, filled, a, Destroyed, c.VM.File
					})
					if proof, x := Weigh("web", c); proof != "" || x.Pending || !strings.Contains(x.Why, "restored") {
						t.Fatalf("%+v is the group's by %q, or not said to be restored (%+v)", c, proof, x)
					}
				}
			}
		}
	}
}

// In one vCenter, a moRef is one VM's: its events say which instanceUuid it had. After a restore, the moRef may be that of a copy, with files of its own.
func TestWhatShowsThatVCenterChangedAnInstanceUUID(t *testing.T) {
	for name, c := range map[string]struct {
		had            []string
		file, recorded string
		want           bool
	}{
		"an event":                  {[]string{"x", "u"}, "[ds] a/a.vmx", "[ds] a/a.vmx", true},
		"an event, and no file":     {[]string{"u"}, "", "[ds] a/a.vmx", true},
		"an event, an older record": {[]string{"u"}, "[ds] a/a.vmx", "", true},
		"no event":                  {nil, "[ds] a/a.vmx", "[ds] a/a.vmx", false},
		"an event of another":       {[]string{"x"}, "[ds] a/a.vmx", "[ds] a/a.vmx", false},
		"another file":              {[]string{"u"}, "[ds] copy/a.vmx", "[ds] a/a.vmx", false},
		"changed again":             {[]string{"u2"}, "[ds] a/a.vmx", "[ds] a/a.vmx", true},
		"an event without an id":    {[]string{""}, "[ds] a/a.vmx", "[ds] a/a.vmx", false},
	} {
		if got := Renumbered(c.had, c.file, c.recorded, "u", "u2", ""); got != c.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}
