package plan

import "fmt"

// Needs is what the members of a group need of hosts and datastores, by its spec.
type Needs struct {
	// CPU, MemoryGiB and DisksGiB are what one member needs: virtual CPUs, memory, and the disks of spec.disks without those of the template, in GiB.
	CPU       int32 `json:"cpu"`
	MemoryGiB int32 `json:"memoryGiB"`
	DisksGiB  int32 `json:"disksGiB,omitempty"`
	// Members is how many members there are, Standby how many standby members, and Extra how many more an update may make.
	Members int32 `json:"members"`
	Standby int32 `json:"standby,omitempty"`
	Extra   int32 `json:"extra,omitempty"`
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
	text := fmt.Sprintf("%s, %s of memory", Count(int(int64(n.CPU)*members), "CPU"), gibibytes(int64(n.MemoryGiB)*members))
	if n.DisksGiB > 0 {
		text += fmt.Sprintf(", %s of disks beside the template's", gibibytes(int64(n.DisksGiB)*members))
	}
	return text
}

func gibibytes(n int64) string {
	if n >= 1024 {
		return fmt.Sprintf("%d GiB (%.3g TiB)", n, float64(n)/1024)
	}
	return fmt.Sprintf("%d GiB", n)
}

// Unlikely says that a member's memory is probably meant in MB, as vSphere and other tools count it; empty if it isn't.
func (n Needs) Unlikely() string {
	if n.MemoryGiB < 512 || n.MemoryGiB%256 != 0 {
		return ""
	}
	return fmt.Sprintf("spec.memory is in GiB, so %d is %.3g TiB for each member: if you mean MB, write %d", n.MemoryGiB, float64(n.MemoryGiB)/1024, max(1, n.MemoryGiB/1024))
}
