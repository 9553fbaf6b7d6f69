package stamp

import (
	"encoding/json"
	"errors"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// The encoding of a stamp's optional parts. The objects "shutdown" and "adopted" never get new keys: a newer
// server adds keys to the stamp itself, because an older one preserves unknown keys only there.
type (
	stampedTime   time.Time
	stampedMoment plan.Moment
	stampedFormer struct {
		Entry  string `json:"entry"`
		Name   string `json:"name"`
		Folder string `json:"folder"`
	}
	stampedTagged plan.Tagged
	// taggedKeys are the fields of a stampedTagged, with the time as text.
	taggedKeys struct {
		MoRef string `json:"moRef"`
		Asked string `json:"asked,omitempty"`
		At    string `json:"at"`
	}
	// momentKeys are the two times of a stampedMoment, as text.
	momentKeys struct {
		At   string `json:"at,omitempty"`
		Boot string `json:"boot,omitempty"`
	}
)

var errTime = errors.New("a time is outside the years 1 to 9999")

// MarshalJSON returns the time in RFC 3339, in whole seconds.
func (t *stampedTime) MarshalJSON() ([]byte, error) {
	return json.Marshal(Time(time.Time(*t)).Format(time.RFC3339))
}

// UnmarshalJSON reads a time in RFC 3339.
func (t *stampedTime) UnmarshalJSON(text []byte) error {
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	at, err := parseStamped(s)
	*t = stampedTime(Time(at))
	return err
}

// MarshalJSON returns both times in RFC 3339, boot in full precision.
func (s *stampedMoment) MarshalJSON() ([]byte, error) {
	var k momentKeys
	if !s.At.IsZero() {
		k.At = Time(s.At).Format(time.RFC3339)
	}
	if !s.Boot.IsZero() {
		k.Boot = s.Boot.UTC().Format(time.RFC3339Nano)
	}
	return json.Marshal(k)
}

// UnmarshalJSON reads both times.
func (s *stampedMoment) UnmarshalJSON(text []byte) error {
	var k momentKeys
	if err := json.Unmarshal(text, &k); err != nil {
		return err
	}
	at, err := parseStamped(k.At)
	if err != nil {
		return err
	}
	boot, err := parseStamped(k.Boot)
	*s = stampedMoment{At: Time(at), Boot: boot}
	return err
}

// MarshalJSON returns the record with its time as a stamp has it.
func (s *stampedTagged) MarshalJSON() ([]byte, error) {
	return json.Marshal(taggedKeys{MoRef: s.MoRef, Asked: s.Asked, At: Time(s.At).Format(time.RFC3339)})
}

// UnmarshalJSON reads the record.
func (s *stampedTagged) UnmarshalJSON(text []byte) error {
	var k taggedKeys
	if err := json.Unmarshal(text, &k); err != nil {
		return err
	}
	at, err := parseStamped(k.At)
	*s = stampedTagged{MoRef: k.MoRef, Asked: k.Asked, At: Time(at)}
	return err
}

// parseStamped parses a time; "" is the zero time.
func parseStamped(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, err
	}
	if t = t.UTC(); t.Year() < 1 || t.Year() > 9999 { // in UTC, the year can be another than in the text
		return time.Time{}, errTime
	}
	return t, nil
}
