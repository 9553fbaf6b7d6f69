package plan

import "fmt"

// Needs is what the members of a group need of hosts and datastores, by its spec.
type Needs struct {
	// CPU, MemoryGiB and DisksGiB are what one member needs: virtual CPUs, memory, and the disks of spec.disks without those of the template, in GiB.
	CPU       int32 `json:"cpu"`
	MemoryGiB int32 `json:"memoryGiB"`
	DisksGiB  int32 `json:"disksGiB,omitempty"`
	// TemplateDisksGiB is the size of a member's copies of the template's disks, in GiB; 0 if it is unknown.
	TemplateDisksGiB int64 `json:"templateDisksGiB,omitempty"`
	// Parts are what a member is made of, in the order of the spec: its template, disks, networks and addresses, and where it runs.
	Parts []NeedsPart `json:"parts,omitempty"`
	// Members is how many members there are, Standby how many standby members, and Extra how many more an update may make.
	Members int32 `json:"members"`
	Standby int32 `json:"standby,omitempty"`
	Extra   int32 `json:"extra,omitempty"`
}

// NeedsPart is one part of a member, by the spec: what it is, such as "disk data", and what the spec says of it.
type NeedsPart struct {
	Part string `json:"part"`
	Is   string `json:"is"`
}

// Each describes what one member needs.
func (n Needs) Each() string { return n.times(1) }

// All describes what all members need, and those that an update may add.
func (n Needs) All() string {
	text := Count(int(n.Members), "member")
	if n.Standby > 0 {
		text += fmt.Sprintf(" and %d on standby", n.Standby)
	}
	text += ": " + n.times(int64(n.Members)+int64(n.Standby))
	if n.Extra > 0 {
		text += fmt.Sprintf("; an update may add %d more", n.Extra)
	}
	return text
}

func (n Needs) times(members int64) string {
	text := fmt.Sprintf("%s, %s of memory", Count(int(int64(n.CPU)*members), "CPU"), Gibibytes(int64(n.MemoryGiB)*members))
	switch {
	case n.TemplateDisksGiB > 0:
		text += fmt.Sprintf(", %s of disks", Gibibytes((int64(n.DisksGiB)+n.TemplateDisksGiB)*members))
	case n.DisksGiB > 0:
		text += fmt.Sprintf(", %s of disks beside the template's", Gibibytes(int64(n.DisksGiB)*members))
	}
	return text
}

func Gibibytes(n int64) string {
	if n >= 1024 {
		return fmt.Sprintf("%d GiB (%.3g TiB)", n, float64(n)/1024)
	}
	return fmt.Sprintf("%d GiB", n)
}

// Warning is what is probably not meant, although nothing refuses it.
type Warning struct {
	// About is the part of the spec, such as "memory" or "networks".
	About string `json:"about"`
	// Seen is what was found, and Advice what to do.
	Seen   string `json:"seen"`
	Advice string `json:"advice"`
}

func (w Warning) String() string { return w.Seen + ": " + w.Advice }

// UnlikelyMemory says that a member's memory is probably meant in MB, as vSphere and other tools count it, and what to write then; empty if it isn't.
func UnlikelyMemory(gib int32) (seen, advice string) {
	if gib < 512 || gib%256 != 0 {
		return "", ""
	}
	return fmt.Sprintf("spec.memory is in GiB, so %d is %.3g TiB for each member", gib, float64(gib)/1024), fmt.Sprintf("if you mean MB, write %d", max(1, gib/1024))
}
