package stamp

import (
	"errors"
)

// Owner says what a VM's stamp tells about its owner.
type Owner int

const (
	// Unmanaged: it has no stamp, a garbled one, or the stamp of the VM that it is a copy of.
	Unmanaged Owner = iota
	// Ours: it has a valid stamp, of any group.
	Ours
	// UnknownVersion: it has a stamp that only a newer server understands. It is counted and never touched.
	UnknownVersion
	// Unreadable: its configuration cannot be read now, so its owner is unclear.
	Unreadable
)

// Read parses the text of a VM's stamp, which is empty if it has none. readable reports whether the VM's configuration could be
// read, and that text with it.
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
