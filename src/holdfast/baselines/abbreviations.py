"""Abbreviations of English that people type in lower case, which the spelling correction leaves as they are."""

from __future__ import annotations

ABBREVIATIONS = frozenset(
    """
    btw ceo cfo cto cv diy dj eec faq fyi hq iq kmh nyc phd qa rsvp tba tbd vip vs

    adc aes ai amd ansi api apk ascii aws bsd ccd cdn cgi cli cmd cms cnn cpu cpus css csv ctrl dac ddos ddr dev
    dhcp dll dns docx dslr dvd dvds dvr eof epub exe gcc gif gifs gpl gps gpu gpus gui hdd hdmi hsv html http https
    imap ios ip ipv iso isp jpeg jpg jpgs js json jvm lcd llm malloc mkv mpeg mysql nfc nfs nlp npm ocr odt oled oop
    opengl oss pcb pci pdf pdfs php png pngs pptx psd psu qr repo rfid rgb rss rtf saas sdk seo smtp sms sql ssd ssds
    ssl svg svn swf tcp tgz tls ttl txt udp ui uri url usb utf ux vba vga vhs vlan vm vms voip vpn vps vr vram wlan wma
    wmv www xhtml xls xlsx xml xpath yaml yml

    abc bbc bmw cbs cia dea epa espn eu faa fbi fcc fda fema fifa hbo hsbc ibm imf irs kfc kgb lapd mba mlb mtv nasa
    nato nba nbc ncaa nfl nhl nhs npr nra nsa oecd opec pga psg suv suvs tv uefa ucla ufc uk unesco unicef usa usda
    usps ussr wwe wwi wwii

    cc cm db gb gbps hz kb kbps kg km kw mah mb mbps mg mins ml mm mw nm

    adhd bmi copd cpr dna ecg eeg ekg hdl hiv hpv ibs iud ivf ldl mri ocd pcos ptsd rna sars uti utis
    """.split()
)
"""Lower case, without English words, which the correction knows, and likely typing errors of words (*ie*, *os*)."""
