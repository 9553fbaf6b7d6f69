package stamp

import (
	"errors"
)

// Owner is what a VM's stamp shows about its owner.
type Owner int

const (
	// Unmanaged means that the VM has no stamp, a garbled one, or the stamp of the VM of which it is a copy.
	Unmanaged Owner = iota
	// Ours means that the VM has a valid stamp of any group.
	Ours
	// UnknownVersion means that the VM has a stamp that only a newer server can read. The server counts the VM and never changes it.
	UnknownVersion
	// Unreadable means that the VM's configuration cannot be read now, so its owner is unclear.
	Unreadable
)

// Read parses the text of a VM's stamp; text is empty if the VM has none. instanceUUID is the VM's own, and readable reports whether the VM's
// configuration, and so the text, could be read.
func Read(text, instanceUUID string, readable bool) (Stamp, Owner) {
	switch {
	case !readable:
		return Stamp{}, Unreadable
	case text == "":
		return Stamp{}, Unmanaged
	}
	stamp, err := Decode(text)
	switch {
	case errors.Is(err, ErrVersion):
		return Stamp{}, UnknownVersion
	case err != nil || stamp.UID == "" || !stamp.Owned(stamp.UID, instanceUUID):
		return Stamp{}, Unmanaged
	}
	return stamp, Ours
}
