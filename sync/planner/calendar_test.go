package planner

import (
	"slices"
	"testing"
	"time"
	_ "time/tzdata"

	"pgregory.net/rapid"

	"codeconnect.vmworld.com/vmgroup/test/must"
)

func zone(t interface{ Fatal(...any) }, name string) *time.Location {
	loc, err := time.LoadLocation(name)
	must.Succeed(t, err)
	return loc
}

func at(t *testing.T, text string) time.Time {
	when, err := time.Parse(time.RFC3339, text)
	must.Succeed(t, err)
	return when
}

// Berlin's clocks skip 02:00 to 03:00 on 2026-03-29 and repeat it on 2026-10-25. 2026-11-23 is a Monday.
func TestWindowsOpenAndCloseByLocalTime(t *testing.T) {
	t.Parallel()
	night := []window{{Hour: 22, Length: 4 * time.Hour}}
	weekend := []window{{Days: []time.Weekday{time.Saturday, time.Sunday}, Length: 24 * time.Hour}}
	half := []window{{Hour: 2, Minute: 30, Length: time.Hour}}
	always := []window{{Length: 24 * time.Hour}}
	for _, c := range []struct {
		what, zone string
		windows    []window
		now        string
		open       bool
		until      string
	}{
		{"before it opens", "Europe/Berlin", night, "2026-11-23T21:59:59+01:00", false, "2026-11-23T22:00:00+01:00"},
		{"as it opens", "Europe/Berlin", night, "2026-11-23T22:00:00+01:00", true, "2026-11-24T02:00:00+01:00"},
		{"after midnight", "Europe/Berlin", night, "2026-11-24T01:59:59+01:00", true, "2026-11-24T02:00:00+01:00"},
		{"as it closes", "Europe/Berlin", night, "2026-11-24T02:00:00+01:00", false, "2026-11-24T22:00:00+01:00"},
		{"it lasts four hours in the night that is an hour shorter", "Europe/Berlin", night, "2026-03-29T01:00:00+01:00", true, "2026-03-29T03:00:00+02:00"},
		{"and in the one that is an hour longer", "Europe/Berlin", night, "2026-10-25T01:00:00+02:00", true, "2026-10-25T02:00:00+02:00"},
		{"the next one is by summer time", "Europe/Berlin", night, "2026-03-29T12:00:00+02:00", false, "2026-03-29T22:00:00+02:00"},
		{"its time is skipped: it opens as the clocks are set forward", "Europe/Berlin", half, "2026-03-29T01:00:00+01:00", false, "2026-03-29T03:00:00+02:00"},
		{"and stays open for its hour", "Europe/Berlin", half, "2026-03-29T03:59:59+02:00", true, "2026-03-29T04:00:00+02:00"},
		{"its time comes twice: it opens the first time", "Europe/Berlin", half, "2026-10-25T02:30:00+02:00", true, "2026-10-25T02:30:00+01:00"},
		{"and not again", "Europe/Berlin", half, "2026-10-25T02:30:00+01:00", false, "2026-10-26T02:30:00+01:00"},
		{"two days of 24 hours are one weekend", "Asia/Tokyo", weekend, "2026-11-28T00:00:00+09:00", true, "2026-11-30T00:00:00+09:00"},
		{"on Friday it is closed", "Asia/Tokyo", weekend, "2026-11-27T23:59:59+09:00", false, "2026-11-28T00:00:00+09:00"},
		{"UTC's Friday is Tokyo's Saturday", "Asia/Tokyo", weekend, "2026-11-27T15:00:00Z", true, "2026-11-29T15:00:00Z"},
		{"24 hours on every day never close", "UTC", always, "2026-11-27T15:00:00Z", true, ""},
		{"the next one is in a week", "UTC", []window{{Days: []time.Weekday{time.Monday}, Hour: 1, Length: time.Hour}}, "2026-11-23T02:00:00Z", false, "2026-11-30T01:00:00Z"},
		{"Lord Howe's clocks move by half an hour", "Australia/Lord_Howe", half, "2026-10-04T01:59:00+10:30", false, "2026-10-04T02:30:00+11:00"},
		{"Samoa skipped a day", "Pacific/Apia", []window{{Hour: 12, Length: time.Hour}}, "2011-12-29T23:00:00-10:00", false, "2011-12-31T00:00:00+14:00"},
		{"no windows", "UTC", nil, "2026-11-27T15:00:00Z", false, ""},
	} {
		windows := make([]window, len(c.windows))
		for i, w := range c.windows {
			w.Zone = zone(t, c.zone)
			windows[i] = w
		}
		var want time.Time
		if c.until != "" {
			want = at(t, c.until)
		}
		if open, until := openAt(at(t, c.now), windows); open != c.open || !until.Equal(want) {
			t.Errorf("%s: open %v until %s, want %v until %s", c.what, open, until, c.open, c.until)
		}
	}
}

func TestWindowsThatOverlapOrFollowEachOtherAreOne(t *testing.T) {
	t.Parallel()
	utc := []window{
		{Hour: 20, Length: 2 * time.Hour, Zone: time.UTC},
		{Hour: 22, Length: time.Hour, Zone: time.UTC},
		{Hour: 22, Minute: 30, Length: 2 * time.Hour, Zone: time.UTC},
		{Hour: 4, Length: time.Hour, Zone: time.UTC},
	}
	for now, want := range map[string]string{
		"2026-11-23T20:00:00Z": "2026-11-24T00:30:00Z", "2026-11-23T22:45:00Z": "2026-11-24T00:30:00Z", "2026-11-24T04:10:00Z": "2026-11-24T05:00:00Z",
	} {
		if open, until := openAt(at(t, now), utc); !open || !until.Equal(at(t, want)) {
			t.Errorf("at %s: open %v until %s, want %s", now, open, until, want)
		}
	}
}

// In any time zone and at any time, the window opens or closes exactly at until and not before, and each day has one opening.
func TestAWindowChangesExactlyWhenItSays(t *testing.T) {
	t.Parallel()
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia", "America/Sao_Paulo", "Africa/Casablanca"}
	rapid.Check(t, func(t *rapid.T) {
		loc := zone(t, rapid.SampledFrom(zones).Draw(t, "zone"))
		w := []window{{Hour: rapid.IntRange(0, 23).Draw(t, "hour"), Minute: rapid.IntRange(0, 59).Draw(t, "minute"), Zone: loc,
			Length: time.Duration(rapid.IntRange(1, 22*60).Draw(t, "length")) * time.Minute}}
		now := time.Date(2005, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(rapid.IntRange(0, 25*365*24*60).Draw(t, "now")) * time.Minute)
		open, until := openAt(now, w)
		if !until.After(now) {
			t.Fatalf("at %s, it changes at %s", now, until)
		}
		last := until.Add(-time.Second)
		if is, same := openAt(last, w); is != open || !same.Equal(until) {
			t.Fatalf("a second before %s: %v until %s, want %v", until, is, same, open)
		}
		if is, _ := openAt(until, w); is == open {
			t.Fatalf("at %s nothing changes", until)
		}
		if _, offset := until.In(loc).Zone(); !open {
			if _, before := until.Add(-time.Second).In(loc).Zone(); offset == before && (until.In(loc).Hour() != w[0].Hour || until.In(loc).Minute() != w[0].Minute) {
				t.Fatalf("it opens at %s", until.In(loc))
			}
		}
	})
}

func TestMembersThatWereClonedTogetherAgeAtDifferentTimes(t *testing.T) {
	t.Parallel()
	const greatest = 30 * 24 * time.Hour
	for _, group := range []string{"1b4e28ba-2fa1-11d2-883f-0016d3cca427", "6fa459ea-ee8a-3ca4-894e-db77e160355e", ""} {
		var lives []time.Duration
		for ordinal := range int32(10) {
			life := lifeOf(greatest, group, ordinal)
			if life > greatest || life < greatest*9/10 {
				t.Errorf("member %d of %q lives for %s", ordinal, group, life)
			}
			lives = append(lives, life)
		}
		slices.Sort(lives)
		for i := 1; i < len(lives); i++ {
			if apart := lives[i] - lives[i-1]; apart < greatest/10/20 {
				t.Errorf("two of ten of %q go within %s", group, apart)
			}
		}
	}
	if lifeOf(greatest, "a", 0) == lifeOf(greatest, "b", 0) {
		t.Error("the members of all groups go together")
	}
}
